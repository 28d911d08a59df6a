import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { build } from 'plist'
import type { UpdateAction } from '../../src/contract/app-bridge.ts'
import { infoOf, sign } from './electron-stand-in/bundle.ts'
import { eventually } from './eventually.ts'
import { startFileServer, type ServeOptions, type ServedFile } from './file-server.ts'
import { ShellApp, type ShellAppOptions } from './shell-app.ts'
import { temporaryFolder } from './temporary-folder.ts'

/** An app on a disk, as far as macOS and its updates look at it. Answers where it is. */
export async function makeBundle(
  folder: string,
  version: string,
  { team = 'METALBAR01', feed = '' }: { readonly team?: string; readonly feed?: string } = {},
): Promise<string> {
  const bundle = path.join(folder, 'Metalbar.app')
  const contents = path.join(bundle, 'Contents')
  await mkdir(path.join(contents, '_CodeSignature'), { recursive: true })
  await mkdir(path.join(contents, 'Resources/bin'), { recursive: true })
  const info = { CFBundleShortVersionString: version, CFBundleIdentifier: 'dev.metalbar.test' }
  await writeFile(path.join(contents, 'Info.plist'), build(info))
  await writeFile(
    path.join(contents, 'Resources/app-update.yml'),
    `provider: generic\nurl: ${feed}\nupdaterCacheDirName: metalbar-updater\n`,
  )
  await writeFile(path.join(contents, 'Resources/bin/metal-agent'), '#!/bin/sh\necho metal-agent\n', { mode: 0o755 })
  // What makes a download take several reads.
  await writeFile(path.join(contents, 'Resources/app.asar'), Buffer.alloc(400_000, version))
  sign(bundle, team)
  return bundle
}

interface Published {
  readonly version: string
  readonly team?: string
  readonly sha512?: string
  /** Of an app that was changed after it was signed. */
  readonly isTampered?: boolean
  readonly serve?: ServeOptions
  readonly size?: number
  /** Archives of the same release for other Macs, by their names. */
  readonly others?: readonly string[]
}

const reply = z.object({
  ok: z.boolean(),
  value: z.object({ update: z.looseObject({ step: z.string() }), lastUpdate: z.unknown().optional() }).optional(),
  failure: z.object({ message: z.string() }).optional(),
})

/** An app of version 1.2.2 on a disk, and a server that publishes others. */
export async function updateWorld() {
  await using stack = new AsyncDisposableStack()
  const { dir } = stack.use(await temporaryFolder())
  const server = stack.use(await startFileServer())
  const bundle = await makeBundle(path.join(dir, 'Applications'), '1.2.2', { feed: `${server.origin}/` })
  const publish = async (published: Published): Promise<ServedFile> => {
    const { version, team, isTampered, serve, others = [] } = published
    const folder = path.join(dir, `made-${version}-${team ?? ''}`)
    const made = await makeBundle(folder, version, { feed: `${server.origin}/`, ...(team !== undefined && { team }) })
    if (isTampered === true) await writeFile(path.join(made, 'Contents/Resources/app.asar'), 'other code')
    // Stored, so that its size is known.
    execFileSync('zip', ['-q', '-0', '-r', path.join(dir, `${version}.zip`), 'Metalbar.app'], { cwd: folder })
    const content = await readFile(path.join(dir, `${version}.zip`))
    const { sha512 = createHash('sha512').update(content).digest('base64'), size = content.length } = published
    const file = `Metalbar-${version}-mac.zip`
    const feed = Buffer.from(
      `version: ${version}\nfiles:\n${others.map((url) => `  - url: ${url}\n    sha512: ${sha512}\n    size: 1\n`).join('')}  - url: ${file}\n    sha512: ${sha512}\n    size: ${size}\npath: ${file}\nsha512: ${sha512}\n`,
    )
    for (const platform of ['mac', 'linux']) server.serve(`/latest-${platform}.yml`, feed)
    return server.serve(`/${file}`, content, serve)
  }
  const start = (options: ShellAppOptions = {}) =>
    ShellApp.start({
      folder: dir,
      ...options,
      env: { ELECTRON_STAND_IN_INSTALLED: '1', ELECTRON_STAND_IN_BUNDLE: bundle, ...options.env },
    })
  const owned = stack.move()
  return {
    dir,
    bundle,
    server,
    publish,
    start,
    /** Of the app on the disk. */
    version: () => infoOf(bundle).CFBundleShortVersionString,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const asks = async (app: ShellApp, verb: string, content?: unknown) =>
  reply.parse(
    await app.ask({
      do: 'forge',
      channel: 'metalbar',
      content: { verb, content },
      origin: 'app://metalbar',
      frame: 'main',
    }),
  )

/** As the window asks; answers why it was not begun, if so. */
export const act = async (app: ShellApp, action: UpdateAction) => (await asks(app, 'update', action)).failure?.message

export const stateOf = async (app: ShellApp) => (await asks(app, 'appState')).value

/** Waits until an update is so far. */
export const untilStep = (app: ShellApp, step: string) =>
  eventually(
    async () => {
      const update = (await stateOf(app))?.update
      if (update?.step === step) return update
      throw new Error(JSON.stringify(update))
    },
    { what: `the update to be ${step}` },
  )
