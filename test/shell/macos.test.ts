import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { doctorReport } from '../../src/contract/doctor.ts'
import { answers } from '../../src/contract/queries.ts'
import { keychainService } from '../../src/installation/uninstall/traces.ts'
import { agentBesideApp } from '../support/agent-beside-app.ts'
import { untilGone } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { isOnElectron } from '../support/real-electron/find-electron.ts'
import { servingWorld } from '../support/serving-world.ts'
import { missingBrowser, startShellBrowser } from '../support/shell-browser.ts'
import { lives, ShellApp } from '../support/shell-app.ts'
import { shellWorld } from '../support/shell-world.ts'
import { skipWhen } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const notification = z.object({ title: z.string(), body: z.string(), actions: z.array(z.string()) })
const notificationsOf = async (app: ShellApp) => z.array(notification).parse(await app.ask({ do: 'notifications' }))

/** Its own window asks. */
const asks = (app: ShellApp, verb: string, content?: unknown) =>
  app.ask({ do: 'forge', channel: 'metalbar', content: { verb, content }, origin: 'app://metalbar', frame: 'main' })

const needsMacos = 'on the stand-in alone: macOS would ask a person, and shows nothing of it to a program'

describe('a notification', () => {
  skipWhen(missingBrowser())

  test('tells of a crash loop once; its button helps, and a click shows the service', async ({ skip }) => {
    skip(isOnElectron, needsMacos)
    await using shell = await shellWorld()
    const { world, app } = shell
    world.apply('tiny', { crashAtStart: { message: 'error: the weights are torn', exitCode: 3 } })
    const crashes = async () => (await notificationsOf(app)).filter(({ title }) => title.includes('keeps crashing'))
    const [told] = await eventually(async () => {
      const all = await crashes()
      return all.length > 0 && all
    })
    await app.ask({ do: 'collectGarbage' })
    await app.ask({ do: 'clickNotification', title: 'tiny keeps crashing' })
    const url = await eventually(async () => {
      const shown = (await app.look()).windows[0]?.url ?? ''
      return shown.includes('#') && shown
    })
    await app.ask({ do: 'clickNotification', title: 'tiny keeps crashing', button: 'Stop' })
    await eventually(() => world.isSuspended('tiny'))
    expect({ told, url, count: (await crashes()).length }).toEqual({
      told: {
        title: 'tiny keeps crashing',
        body: expect.any(String) as unknown,
        actions: ['Stop'],
      },
      url: expect.stringMatching(/#service\/.+/) as unknown,
      count: 1,
    })
  })
})

describe('the app on a Mac', () => {
  test('offers once to be opened at login, when the first model serves; its true state is in the menu', async ({
    skip,
  }) => {
    skip(isOnElectron, needsMacos)
    await using world = await servingWorld()
    await using folder = await temporaryFolder()
    const options = { folder: folder.dir, env: { ELECTRON_STAND_IN_INSTALLED: '1' } }
    {
      await using app = await ShellApp.start({
        ...options,
        kubeconfig: world.sim.kubeconfig(),
        preferences: world.preferences,
      })
      await app.icon('idle')
      expect(JSON.stringify(await app.menu())).not.toContain('Open Metalbar at login')
      world.apply('tiny')
      await app.icon('serving')
      await eventually(async () => (await notificationsOf(app)).some(({ title }) => title.includes('at login')))
      await app.ask({ do: 'approveLoginItem', isAllowed: false })
      await app.choose('Open Metalbar at login')
      await app.choose('This app', 'Open at login: allow it in System Settings…')
      await app.ask({ do: 'approveLoginItem', isAllowed: true })
      const entries = JSON.stringify(await app.menu())
      expect([
        await app.ask({ do: 'opened' }),
        entries.includes('✓ Open at login'),
        entries.includes('Open Metalbar at login'),
        await app.json('preferences.json'),
      ]).toEqual([
        ['x-apple.systempreferences:com.apple.LoginItems-Settings.extension'],
        true,
        false,
        expect.objectContaining({ loginItemOffered: true }),
      ])
      await app.quit()
    }
    await using next = await ShellApp.start(options)
    await next.icon('serving')
    const menu = JSON.stringify(await next.menu())
    expect([menu.includes('Open Metalbar at login'), await notificationsOf(next)]).toEqual([false, []])
  })

  test('a link turns its window and does nothing else; one that is not understood is one line of the log', async () => {
    await using app = await ShellApp.start({ preferences: {} })
    await app.icon('disconnected', 'kubeconfig')
    const hostile = `metalbar://stop/default/tiny?${'x'.repeat(300)}`
    for (const link of [hostile, 'metalbar://settings/../../etc/passwd', 'javascript:alert(1)']) {
      await app.ask({ do: 'openLink', link })
    }
    const before = (await app.look()).windows.length
    await app.ask({ do: 'openLink', link: 'metalbar://settings' })
    await eventually(async () => (await app.look()).windows.length === 1)
    const lines = (await app.log()).split('\n').filter((line) => line.includes('a link that opens nothing'))
    expect([before, lines.length, lines.some((line) => /passwd|alert|xxx/.test(line))]).toEqual([0, 3, false])
  })

  test('a process of Chromium that goes touches no model, and is logged', async () => {
    await using world = await servingWorld()
    await using app = await ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences })
    const pid = await app.serve(world, 'tiny')
    for (const reason of ['crashed', 'killed', 'clean-exit']) await app.ask({ do: 'helperGone', type: 'GPU', reason })
    const lines = (await app.log()).split('\n').filter((line) => line.includes('a helper process of the app ended'))
    expect([lines.length, await app.serverOf('tiny'), lives(pid)]).toEqual([2, pid, true])
  })
})

test('the doctor and the report of its window know of the app: whether it is opened at login, and whether its icon is seen', async ({
  skip,
}) => {
  skip(isOnElectron, needsMacos)
  skip(missingBrowser() !== undefined, missingBrowser())
  await using browser = await startShellBrowser()
  const env = { ELECTRON_STAND_IN_INSTALLED: '1' }
  await using app = await ShellApp.start({ preferences: {}, chromium: browser.endpoint, env })
  await app.icon('disconnected', 'kubeconfig')
  // A window of its own: one under the icon gives way to it once nobody sees the icon.
  await app.choose('This app', 'Open in its own window')
  const page = await browser.window()
  const query = async (name: 'doctor' | 'diagnostics') => {
    const reply: unknown = await page.evaluate(
      `metalbar.ask('query', { id: crypto.randomUUID(), query: { name: '${name}' } })`,
    )
    return z.object({ ok: z.literal(true), value: z.unknown() }).parse(reply).value
  }
  const found = async () => {
    const { findings } = doctorReport.parse(await query('doctor'))
    expect(findings.some(({ subject }) => subject === 'cluster')).toBe(true)
    return findings.filter(({ subject }) => subject === 'app').map(({ id, verdict }) => `${id} ${verdict}`)
  }
  expect(await found()).toEqual(['login-item warn', 'icon pass'])
  await app.ask({ do: 'approveLoginItem', isAllowed: false })
  await asks(app, 'setLoginItem', true)
  await app.ask({ do: 'moveIcon', bounds: { x: 0, y: 0, width: 0, height: 0 } })
  const { findings } = doctorReport.parse(await query('doctor'))
  expect(findings.slice(0, 2)).toMatchObject([
    { id: 'login-item', verdict: 'warn', says: expect.stringContaining('macOS waits for your permission') as string },
    { id: 'icon', verdict: 'warn', says: expect.stringContaining('behind the camera') as string },
  ])
  await app.ask({ do: 'approveLoginItem', isAllowed: true })
  // Below the screen, where macOS puts what has no room.
  await app.ask({ do: 'moveIcon', bounds: { x: 1_000, y: 950, width: 24, height: 25 } })
  expect(await found()).toEqual(['login-item pass', 'icon warn'])
  const { files } = answers.diagnostics.parse(await query('diagnostics'))
  expect(files.find(({ name }) => name === 'app.json')?.text).toContain('"login-item"')

  await page.getByRole('tab', { name: 'Help' }).click()
  // The questions about the machine may take ten seconds.
  await page.getByRole('heading', { name: 'Can the icon of Metalbar be seen?' }).waitFor({ timeout: 15_000 })
})

describe('what only the app’s own window may ask', () => {
  test('keeps the Hub token encrypted; it is in no log, no snapshot and no answer, and is removed without a trace', async ({
    skip,
  }) => {
    skip(isOnElectron, needsMacos)
    await using folder = await temporaryFolder()
    const env = { ELECTRON_STAND_IN_KEYCHAIN: path.join(folder.dir, 'keychain') }
    await using app = await ShellApp.start({ folder: folder.dir, preferences: {}, env })
    await app.icon('disconnected', 'kubeconfig')
    const token = `hf_${'t0ken'.repeat(4)}`
    const answers = [
      await asks(app, 'appState'),
      await asks(app, 'setHubToken', ` ${token}\n`),
      await asks(app, 'setHubToken', 'two words'),
      await asks(app, 'setHubToken', 'x'.repeat(5_000)),
      await asks(app, 'appState'),
    ]
    const states = answers.map(
      (one) => z.object({ value: z.object({ hubToken: z.string() }) }).safeParse(one).data?.value,
    )
    expect(states.map((state) => state?.hubToken)).toEqual(['none', undefined, undefined, undefined, 'kept'])
    const snapshot = await asks(app, 'snapshot')
    const files = await Promise.all(
      (await readdir(app.stateDir, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => readFile(path.join(entry.parentPath, entry.name), 'latin1')),
    )
    expect(JSON.stringify([answers, snapshot, files, app.output])).not.toContain('t0kent0ken')
    // Where uninstall finds its key.
    const items = JSON.parse(await readFile(env.ELECTRON_STAND_IN_KEYCHAIN, 'utf8')) as object
    expect(Object.keys(items)).toEqual([keychainService])
    expect(await asks(app, 'removeHubToken')).toEqual({ ok: true })
    expect(await asks(app, 'appState')).toMatchObject({ value: { hubToken: 'none' } })
    expect((await readdir(app.stateDir)).filter((name) => name.startsWith('hub-token'))).toEqual([])
  })

  test('files are chosen in a dialog of the system, parts of its settings are named, and all else is refused', async ({
    skip,
  }) => {
    skip(isOnElectron, needsMacos)
    await using app = await ShellApp.start({ preferences: {} })
    await app.icon('disconnected', 'kubeconfig')
    await app.ask({ do: 'chooseFile', file: '/home/me/.kube/config' })
    const chosen = await asks(app, 'chooseFile', 'kubeconfig')
    await app.ask({ do: 'chooseFile', file: null })
    const none = await asks(app, 'chooseFile', 'executable')
    const opened = [await asks(app, 'openPane', 'notifications'), await asks(app, 'openPane', 'localNetwork')]
    const refused = [
      await asks(app, 'chooseFile', '/etc/passwd'),
      await asks(app, 'openPane', 'https://example.com'),
      await asks(app, 'prefer', { onQuit: 'format' }),
      await asks(app, 'prefer', { loginItemOffered: true }),
      await asks(app, 'setLoginItem', 'yes'),
    ]
    const unavailable = await asks(app, 'setLoginItem', true)
    expect(await asks(app, 'prefer', { notifications: false })).toEqual({ ok: true })
    const preferred = await asks(app, 'appState')
    expect({ chosen, none, opened, refused, unavailable, preferred, shown: await app.ask({ do: 'opened' }) }).toEqual({
      chosen: { ok: true, value: '/home/me/.kube/config' },
      none: { ok: true },
      opened: Array(2).fill({ ok: true }),
      refused: Array(5).fill({ ok: false, failure: expect.objectContaining({ code: 'misunderstood' }) as unknown }),
      unavailable: {
        ok: false,
        failure: { code: 'refused', message: 'Only an installed app can be opened at login.' },
      },
      preferred: {
        ok: true,
        value: {
          hubToken: 'unavailable',
          loginItem: 'unavailable',
          isHere: true,
          isTornOff: false,
          preferences: {
            showTitle: false,
            onQuit: 'ask',
            notifications: false,
            looksForUpdates: false,
          },
          version: '0.0.0',
          update: { step: 'unavailable', why: 'source' },
          commandLink: { state: 'unavailable' },
        },
      },
      shown: [
        'x-apple.systempreferences:com.apple.Notifications-Settings.extension',
        'x-apple.systempreferences:com.apple.preference.security?Privacy_LocalNetwork',
      ],
    })
    expect(await app.json('preferences.json')).toMatchObject({ onQuit: 'ask', notifications: false })
  })
})

test('started without a terminal, the app finds a credential plugin and the kubeconfig as the login shell does', async () => {
  await using world = await servingWorld()
  await using folder = await temporaryFolder()
  const tools = path.join(folder.dir, 'tools')
  const home = path.join(folder.dir, 'home')
  await mkdir(tools)
  await mkdir(home)
  const plugin = path.join(tools, 'aws-of-mine')
  const credential = {
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    status: { token: 'kube-sim-admin-token' },
  }
  await writeFile(plugin, `#!/bin/sh\n[ "$AWS_PROFILE" = lab ] && echo '${JSON.stringify(credential)}'\n`)
  await chmod(plugin, 0o700)
  const kubeconfig = path.join(folder.dir, 'elsewhere.yaml')
  await writeFile(kubeconfig, withPlugin(world.sim.connection().server, 'aws-of-mine'))
  // Slower than the agent starts, so that one that does not wait for it is seen.
  const profile = ['sleep 1', `export PATH="$PATH:${tools}" KUBECONFIG=${kubeconfig} AWS_PROFILE=lab`, 'echo Hi; false']
  await writeFile(path.join(home, '.bash_profile'), profile.join('\n'))
  await using app = await ShellApp.start({
    folder: folder.dir,
    preferences: world.preferences,
    env: { SHELL: '/bin/bash' },
  })
  await app.icon('idle', 'Live')
  const steps = ['environment of the login shell', 'starting metal-agent']
  expect((await app.messages()).filter((message) => steps.includes(message))).toEqual(steps)
})

test('where a metal-agent runs this machine, the app says so, and takes its place when a person wants that: what serves goes on', async () => {
  await using world = await servingWorld()
  await using beside = await agentBesideApp(world)
  const { agent, folder } = beside
  await using app = await ShellApp.start({ folder, preferences: world.preferences })
  const pid = await app.serve(world, 'tiny')
  const before = JSON.stringify(await app.menu())
  await app.choose('Run the agent in this app…')
  await app.press('Cancel')
  expect([before.includes('The agent runs outside this app'), agent.exit]).toEqual([true, undefined])
  await app.choose('Run the agent in this app…')
  await app.press('Run it here')
  await agent.exited
  await eventually(async () => !JSON.stringify(await app.menu()).includes('Run the agent in this app'))
  await app.icon('serving')
  // A server that is to be replaced serves on for a while, and says so.
  const saying = async () => (await app.service('tiny')).message
  await eventually(async () => (await saying()).startsWith('Serving at 192.0.2.10'))
  expect(await saying()).not.toContain('is about to be restarted')
  expect([await app.serverOf('tiny'), lives(pid), world.published('tiny'), agent.exit?.code]).toEqual([
    pid,
    true,
    '192.0.2.10',
    0,
  ])
  expect(await app.quit()).toBe(0)
  await untilGone(pid)
})

const withPlugin = (server: string, command: string): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'sim',
    clusters: [{ name: 'sim', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [
      {
        name: 'admin',
        user: { exec: { apiVersion: 'client.authentication.k8s.io/v1', command, interactiveMode: 'Never' } },
      },
    ],
    contexts: [{ name: 'sim', context: { cluster: 'sim', user: 'admin' } }],
  })
