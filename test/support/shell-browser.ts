import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { chromium, type Page } from 'playwright'
import { findBrowser } from './window/browser.ts'
import { eventually } from './eventually.ts'
import { electronPages } from './real-electron/electron-process.ts'
import { isOnElectron } from './real-electron/find-electron.ts'
import { temporaryFolder } from './temporary-folder.ts'

export interface ShellBrowser extends AsyncDisposable {
  /** Where a ShellApp draws its windows. */
  readonly endpoint: string
  /** The window that is open, or opens next. */
  window(): Promise<Page>
}

/** Why there is no Chromium here; undefined where there is one, as Electron has. */
export function missingBrowser(): string | undefined {
  if (isOnElectron) return undefined
  const found = findBrowser()
  return 'missing' in found ? found.missing : undefined
}

/** A Chromium that the test and the app both drive; on Electron the app's own. */
export async function startShellBrowser(): Promise<ShellBrowser> {
  if (isOnElectron) {
    return {
      endpoint: '',
      window: () => eventually(() => windowIn(electronPages()), { what: 'a window' }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }
  }
  const found = findBrowser()
  if ('missing' in found) throw new Error(found.missing)
  await using stack = new AsyncDisposableStack()
  const { dir } = stack.use(await temporaryFolder())
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  const context = await chromium.launchPersistentContext(dir, {
    executablePath: found.path,
    // The app gives its window its size.
    viewport: null,
    args: ['--remote-debugging-port=0', ...asRoot],
  })
  stack.defer(() => context.close())
  const port = await eventually(
    async () => (await readFile(path.join(dir, 'DevToolsActivePort'), 'utf8')).split('\n')[0],
  )
  const owned = stack.move()
  return {
    endpoint: `http://127.0.0.1:${port}`,
    window: () => eventually(() => windowIn(context.pages()), { what: 'a window' }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const windowIn = (pages: readonly Page[]) => pages.find((page) => new URL(page.url()).pathname.endsWith('/index.html'))
