import { access, constants, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { extractFile, listPackage } from '@electron/asar'
import { getCurrentFuseWire, FuseState, FuseV1Options } from '@electron/fuses'
import { Arch, build, Platform, type CliOptions } from 'electron-builder'
import { execa } from 'execa'
import { parse } from 'plist'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { flavourConfig, flavourOf, mainOf, WrongFlavourError, type Package } from '../../tasks/package/app/flavours.ts'
import { programsIn } from '../../tasks/package/app/after-pack.ts'
import { appName } from '../../src/installation/uninstall/traces.ts'
import { eventually } from '../support/eventually.ts'
import { servingWorld } from '../support/serving-world.ts'
import { missingBrowser } from '../support/shell-browser.ts'
import { ShellApp } from '../support/shell-app.ts'
import { skeletonUuid, writeSkeletonElectron } from '../support/package/skeleton-electron.ts'
import { standInProgram } from '../support/package/stand-in-program.ts'
import { skipWhen } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** What electron-builder makes of the built app with the real configuration. In place of Electron there is a skeleton: nothing here runs on a Mac. */

const root = path.join(import.meta.dirname, '../..')
const folder = await temporaryFolder()
const inside = (...names: string[]) => path.join(folder.dir, ...names)
const ofTests = (name: string) => `/test/support/real-electron/${name}`
const answerShape = z.object({ status: z.number(), body: z.string() })
const most = 15_000_000

const e2eApp = 'e2e/Applications/mac-arm64/Metalbar E2E.app'

const packages = [
  ['release', 'arm64', 'app/mac-arm64/Metalbar.app'],
  ['release', 'x64', 'app/mac/Metalbar.app'],
  ['e2e', 'arm64', e2eApp],
] as const

function pack(output: string, ...more: string[]) {
  const options = ['--dir', '--electron', inside('electron'), '--commands', inside('commands'), '--output', output]
  return execa(process.execPath, [path.join(root, 'tasks/package/build-app.ts'), ...options, ...more], {
    cwd: root,
    env: { NODE_ENV: undefined },
    all: true,
  })
}

async function sizeOf(parent: string): Promise<number> {
  const entries = await readdir(parent, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(files.map((file) => stat(path.join(file.parentPath, file.name))))
  return sizes.reduce((sum, { size }) => sum + size, 0)
}

/** There electron-builder has codesign sign what it packs. */
const cannotPack =
  process.platform === 'darwin'
    ? 'not on a Mac, where the skeleton in place of Electron cannot be signed: `make package` makes the real package'
    : undefined

beforeAll(async () => {
  if (cannotPack !== undefined) return
  await writeSkeletonElectron(inside('electron'))
  for (const arch of ['arm64', 'x64']) {
    await mkdir(inside(`commands/metal-agent-darwin-${arch}`), { recursive: true })
    await writeFile(inside(`commands/metal-agent-darwin-${arch}/metal-agent`), arch, { mode: 0o755 })
    await writeFile(inside(`commands/metal-agent-darwin-${arch}/THIRD_PARTY_NOTICES`), `of the command for ${arch}`)
  }
  await pack(inside('app'))
  await pack(inside('e2e/Applications'), '--flavour', 'e2e', '--arch', 'arm64')
})
afterAll(() => folder[Symbol.asyncDispose]())

describe.each(packages)('the package %s for %s', (flavour, arch, app) => {
  skipWhen(cannotPack)
  const contents = inside(app, 'Contents')
  const archive = path.join(contents, 'Resources/app.asar')

  test('says in Info.plist what macOS has to know of it, and asks for nothing else', async () => {
    const info = parse(await readFile(path.join(contents, 'Info.plist'), 'utf8')) as Record<string, unknown>
    const reasons = Object.keys(info).filter((key) => key.endsWith('UsageDescription'))
    const isRelease = flavour === 'release'
    expect(info).toMatchObject({
      CFBundleIdentifier: isRelease ? 'dev.metalbar.app' : 'dev.metalbar.e2e',
      CFBundleName: isRelease ? 'Metalbar' : 'Metalbar E2E',
      CFBundleShortVersionString: expect.stringMatching(isRelease ? /^\d+\.\d+\.\d+$/ : /-e2e$/) as string,
      CFBundleIconFile: 'icon.icns',
      CFBundleURLTypes: [{ CFBundleURLSchemes: ['metalbar'] }],
      LSUIElement: true,
      LSMinimumSystemVersion: '13.5',
      LSApplicationCategoryType: 'public.app-category.developer-tools',
      NSAppSleepDisabled: true,
      NSSupportsAutomaticTermination: false,
      NSSupportsSuddenTermination: false,
      ElectronAsarIntegrity: { 'Resources/app.asar': { algorithm: 'SHA256' } },
    })
    expect(reasons).toEqual(['NSLocalNetworkUsageDescription'])
    expect(info['NSAppTransportSecurity']).not.toHaveProperty('NSAllowsArbitraryLoads')
    const icon = await readFile(path.join(contents, 'Resources/icon.icns'))
    expect([icon.toString('latin1', 0, 4), icon.readUInt32BE(4)]).toEqual(['icns', icon.length])
  })

  test('gives each program a UUID of its own, by which macOS tells its permissions from those of other apps', async () => {
    const programs = await programsIn(inside(app))
    // Behind the header and the two words of the load command.
    const uuids = await Promise.all(programs.map(async (file) => (await readFile(file)).toString('hex', 40, 56)))
    expect(programs.map((file) => path.basename(file)).toSorted()).toEqual(
      ['', ' Helper', ' Helper (GPU)', ' Helper (Plugin)', ' Helper (Renderer)'].map(
        (kind) => `${path.basename(app, '.app')}${kind}`,
      ),
    )
    expect(new Set([...uuids, skeletonUuid]).size).toBe(programs.length + 1)
  })

  test('has every fuse as it was decided', async () => {
    const wire = await getCurrentFuseWire(inside(app))
    const on = Object.entries(wire).flatMap(([fuse, state]) =>
      (state as unknown) === FuseState.ENABLE ? [FuseV1Options[Number(fuse)]] : [],
    )
    expect(on).toEqual([
      ...(flavour === 'e2e' ? ['EnableNodeCliInspectArguments'] : []),
      'EnableEmbeddedAsarIntegrityValidation',
      'OnlyLoadAppFromAsar',
      'WasmTrapHandlers',
    ])
  })

  test('holds what runs and nothing else', () => {
    const names = listPackage(archive, { isPack: false })
    const files = names.filter((name) => path.extname(name) !== '')
    const allowed =
      /^\/(package\.json|assets\/tray\/\w+Template(@2x)?\.png|out\/main\/(main\.js|preload\.cjs|chunks\/[\w-]+\.js|workers\/[\w-]+\.cjs)|out\/renderer\/(index\.html|assets\/[\w-]+\.(js|css|svg|woff2)))$/
    const beside = files.filter((file) => !allowed.test(file))
    expect(beside.toSorted()).toEqual(flavour === 'e2e' ? ['hook.cjs', 'packed-main.js'].map(ofTests) : [])
    expect(files).toEqual(
      expect.arrayContaining([
        '/out/main/main.js',
        '/out/main/workers/safetensors-header-worker.cjs',
        '/out/main/preload.cjs',
        '/out/renderer/index.html',
      ]),
    )
    const manifest = JSON.parse(extractFile(archive, 'package.json').toString()) as Record<string, unknown>
    expect(manifest).toMatchObject({
      // Electron names the keychain item after it, which uninstall looks for.
      productName: flavour === 'release' ? appName : flavourConfig.e2e.productName,
      ...{ main: mainOf[flavour], type: 'module' },
    })
    expect(Object.keys(manifest)).not.toContain('devDependencies')
  })

  test(`adds at most ${most / 1e6} MB to Electron, besides the command`, async () => {
    const added = (await sizeOf(contents)) - (await sizeOf(inside('electron/Electron.app/Contents')))
    const { size: command } = await stat(path.join(contents, 'Resources/bin/metal-agent'))
    // The archive alone is more than half a megabyte: a sum of nothing is none.
    expect(added - command).toBeGreaterThan(500_000)
    expect(added - command).toBeLessThan(most)
  })

  test('names what is bundled in it and in its command, with their licences', async () => {
    const text = (name: string) => readFile(path.join(contents, 'Resources', name), 'utf8')
    const notices = await text('THIRD_PARTY_NOTICES.txt')
    // Of the window, of the agent in the main process, and of what looks into a model.
    for (const name of ['react-aria-components', 'js-yaml', '@huggingface/blake3-jit']) {
      expect(notices).toMatch(new RegExp(`^${name} \\d+\\.`, 'm'))
    }
    expect(notices).toContain('Permission is hereby granted, free of charge')
    expect(await text('THIRD_PARTY_NOTICES.metal-agent.txt')).toBe(`of the command for ${arch}`)
  })

  test('carries the command of its architecture, the licence, and one language', async () => {
    const command = path.join(contents, 'Resources/bin/metal-agent')
    await access(command, constants.X_OK)
    await access(path.join(contents, 'Resources/LICENSE.metalbar.txt'))
    expect(await readFile(command, 'utf8')).toBe(arch)
    // The name that LLMKube's guides call.
    expect(await readFile(path.join(contents, 'Resources/bin/llmkube-metal-agent'), 'utf8')).toBe(arch)
    await expect(access(path.join(contents, 'Resources/de.lproj'))).rejects.toThrow('ENOENT')
    await access(path.join(contents, 'Resources/en.lproj'))
  })
})

test('runs from its archive: the icon, the page over app:, and a model whose download a thread hashes', async ({
  skip,
}) => {
  if (cannotPack !== undefined) skip(cannotPack)
  const archive = inside('app/mac-arm64/Metalbar.app/Contents/Resources/app.asar')
  await using world = await servingWorld()
  await using app = await ShellApp.start({
    archive,
    kubeconfig: world.sim.kubeconfig(),
    preferences: world.preferences,
  })
  await app.icon('idle')
  const page = answerShape.parse(await app.ask({ do: 'request', url: 'app://metalbar/index.html', method: 'GET' }))
  const script = /src="([^"]+\.js)"/.exec(page.body)?.[1] ?? 'no script'
  const { href } = new URL(script, 'app://metalbar/index.html')
  const loaded = answerShape.parse(await app.ask({ do: 'request', url: href, method: 'GET' }))
  world.apply('tiny')
  await app.icon('serving')
  expect([page.status, loaded.status, loaded.body.length > 10_000]).toEqual([200, 200, true])
})

test('what drives Electron drives the packed flavour for tests: icon, menu, window, files beside it, and its end', async ({
  skip,
}) => {
  const missing = cannotPack ?? missingBrowser()
  if (missing !== undefined) skip(missing)
  const electron = await standInProgram(inside(e2eApp))
  await using app = await ShellApp.start({ preferences: {}, electron })
  await app.icon('disconnected', 'kubeconfig')
  const menu = JSON.stringify(await app.menu())
  await app.choose('Settings…')
  await eventually(async () => (await app.look()).windows[0]?.isVisible, { what: 'the window' })
  const state = await app.ask({
    do: 'forge',
    channel: 'metalbar',
    content: { verb: 'appState' },
    origin: 'app://metalbar',
    frame: 'main',
  })
  expect(menu).toContain('Open at login')
  expect(state).toMatchObject({
    ok: true,
    value: {
      version: expect.stringMatching(/-e2e$/) as unknown,
      // As installed, and of a package that was told of no address for updates.
      update: { step: 'unavailable', why: 'unpublished' },
      loginItem: 'not-registered',
    },
  })
  expect(await app.quit()).toBe(0)
})

test('electron-builder checks the section of the disk image by its schema before it packs anything', async () => {
  const config = { dmg: { window: { width: 'wide' } }, directories: { output: inside('wrong') } }
  const targets = Platform.MAC.createTarget(['dir'], Arch.arm64)
  const wrong = build({ projectDir: root, targets, publish: 'never', config } as unknown as CliOptions)
  await expect(wrong).rejects.toThrow('configuration.dmg.window.width')
})

test('without the command of an architecture there is no package', async () => {
  await expect(pack(inside('none'), '--arch', 'arm64', '--commands', inside('nowhere'))).rejects.toThrow(
    'the self-contained command is built before the app',
  )
})

test('the hardened runtime lets it write machine code, and nothing else', async () => {
  expect(parse(await readFile(path.join(root, 'entitlements.plist'), 'utf8'))).toEqual({
    'com.apple.security.cs.allow-jit': true,
  })
})

const e2e: Package = {
  ...{ appId: 'dev.metalbar.e2e', version: '1.2.3-e2e', main: mainOf.e2e },
  ...{ identity: '-', hasPublish: false },
}
const release: Package = { ...e2e, appId: 'dev.metalbar.app', version: '1.2.3', main: mainOf.release }

test.each<[what: string, Package]>([
  ['signed with the certificate of a person', { ...e2e, identity: 'Somebody (TEAM)' }],
  ['signed with whatever certificate is found', { ...e2e, identity: undefined }],
  ['told where to publish', { ...e2e, hasPublish: true }],
  ['versioned as a release', { ...e2e, version: '1.2.3' }],
  ['of an id that is none of ours', { ...e2e, appId: 'dev.metalbar.other' }],
  ['a release that is versioned as for tests', { ...release, version: e2e.version }],
  ['a release that starts with what tests need', { ...release, main: e2e.main }],
])('no package lets an inspector in that is %s', (_, wrong) => {
  expect([flavourOf(e2e), flavourOf(release)]).toEqual(['e2e', 'release'])
  expect(() => flavourOf(wrong)).toThrow(WrongFlavourError)
})
