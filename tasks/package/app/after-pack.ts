import { access, constants, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { flipFuses } from '@electron/fuses'
import type { AfterPackContext } from 'electron-builder'
import { build, parse } from 'plist'
import { goAgentName } from '../command-archive.ts'
import { writeUuid } from '../mach-o.ts'
import { flavourOf } from './flavours.ts'
import { fusesOf } from './fuses.ts'
import { tidied } from './info-plist.ts'

/** electron-builder calls it with the app in place and nothing signed yet. */
export default async function afterPack({ appOutDir, packager }: AfterPackContext): Promise<void> {
  const { appInfo, config } = packager
  const flavour = flavourOf({
    appId: appInfo.id,
    version: appInfo.version,
    main: packager.info.metadata.main,
    identity: config.mac?.identity,
    hasPublish: config.publish != null,
  })
  const app = path.join(appOutDir, `${appInfo.productFilename}.app`)
  await symlink(path.basename(await commandIn(app)), path.join(app, 'Contents/Resources/bin', goAgentName))
  await hasNotices(app)
  const file = path.join(app, 'Contents/Info.plist')
  await writeFile(file, build(tidied(parse(await readFile(file, 'utf8')))))
  await flipFuses(app, fusesOf(flavour))
  for (const program of await programsIn(app)) await writeUuid(program, `${appInfo.id} ${path.basename(program)}`)
}

/** What macOS starts as processes of the app: the app itself and Electron's helpers. The command got its UUID when it was built. */
export async function programsIn(app: string): Promise<readonly string[]> {
  const frameworks = path.join(app, 'Contents/Frameworks')
  const helpers = (await readdir(frameworks)).filter((name) => name.endsWith('.app'))
  return [app, ...helpers.map((name) => path.join(frameworks, name))].map((bundle) =>
    path.join(bundle, 'Contents/MacOS', path.basename(bundle, '.app')),
  )
}

/** electron-builder only warns of a file that is not there; its own of Electron come with Electron. */
async function hasNotices(app: string): Promise<void> {
  for (const name of ['LICENSE.metalbar.txt', 'THIRD_PARTY_NOTICES.txt', 'THIRD_PARTY_NOTICES.metal-agent.txt']) {
    await access(path.join(app, 'Contents/Resources', name))
  }
}

/** Throws where the command is missing. */
async function commandIn(app: string): Promise<string> {
  const command = path.join(app, 'Contents/Resources/bin/metal-agent')
  try {
    await access(command, constants.X_OK)
    return command
  } catch (error) {
    throw new Error(`${command} is missing or cannot be run: the self-contained command is built before the app.`, {
      cause: error,
    })
  }
}
