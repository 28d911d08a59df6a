import type { Found, Part } from './part.ts'
import { isExecutable, onPath, run } from './tools.ts'

/** The headless shell first: it draws no window of its own around a page, which takes as much processor time as our pages do. */
const commands = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

const applications = [
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

/** What the window falls back on where a system has no font of its own. */
const font = 'fonts-inter'

/** Another run may be installing: apt-get waits that long for its turn. */
const aptLockSeconds = 300

/** A browser for the tests of the window: the one METALBAR_CHROMIUM names, an installed one, else Debian's package. */
export const chromiumPart: Part = {
  name: 'chromium',
  about: "Debian's package of Chromium; a minute, once",
  required: true,
  find: () => findNamed(process.env['METALBAR_CHROMIUM']) ?? findInstalled(),
  lacks: () => Promise.resolve(missingInstaller()),
  build: async (logFile) => {
    const apt = (...args: string[]) =>
      run('apt-get', ['-o', `DPkg::Lock::Timeout=${aptLockSeconds}`, ...args], {
        logFile,
        env: { DEBIAN_FRONTEND: 'noninteractive' },
      })
    await apt('update')
    const install = (browser: string) => apt('install', '--yes', '--no-install-recommends', browser, font)
    // Not every system that has apt-get has the headless shell as a package of its own.
    await install('chromium-headless-shell').catch(() => install('chromium'))
  },
}

function findNamed(path: string | undefined): Found | undefined {
  if (path === undefined || path === '') return undefined
  return isExecutable(path)
    ? { found: true, path, origin: 'METALBAR_CHROMIUM' }
    : { found: false, reason: `METALBAR_CHROMIUM names ${path}, which is not an executable file` }
}

function findInstalled(): Found {
  const path = commands.map(onPath).find((found) => found !== undefined) ?? applications.find(isExecutable)
  return path === undefined
    ? { found: false, reason: 'there is no Chromium or Google Chrome: run `make setup`' }
    : { found: true, path, origin: 'installed' }
}

function missingInstaller(): string | undefined {
  const instead = 'or set METALBAR_CHROMIUM to the path of a Chromium or Google Chrome'
  if (process.platform === 'darwin') {
    return `A browser is needed to test the window: install Google Chrome from https://www.google.com/chrome/, ${instead}`
  }
  if (onPath('apt-get') === undefined) {
    return `A browser is needed to test the window: install Chromium with the system's package manager, ${instead}`
  }
  if (process.getuid?.() !== 0) {
    return `Only root may install a browser to test the window: run \`sudo apt-get install chromium\`, ${instead}`
  }
  return undefined
}
