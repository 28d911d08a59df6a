import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { agentSettings } from '../../src/agent-core/settings/settings.ts'
import { socketPathFor } from '../../src/agent-core/state/socket-path.ts'
import { connectToAgent } from '../../src/serve/client/agent-client.ts'
import { hostAgent } from '../../src/serve/host-agent.ts'
import { agentBesideApp } from '../support/agent-beside-app.ts'
import { eventually } from '../support/eventually.ts'
import { powerStandIns } from '../support/power/stand-ins.ts'
import { isDrivenPacked, isOnElectron } from '../support/real-electron/find-electron.ts'
import { Recorder } from '../support/running-agent.ts'
import { servingWorld, type ServingWorld } from '../support/serving-world.ts'
import { lives, ShellApp, stateDirIn, type ShellAppOptions } from '../support/shell-app.ts'
import { StatedMemory } from '../support/stated-memory.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describe('the icon and its menu', () => {
  test('say what the agent does as it does it', async () => {
    await using world = await servingWorld()
    await using app = await startApp(world)
    const idle = await app.icon('idle')
    world.apply('tiny')
    const serving = await app.icon('serving')
    // Its memory is measured from the first time on that somebody looks.
    const menu = await eventually(async () => {
      const shown = await app.menu()
      return JSON.stringify(shown).includes('● tiny   Ready') ? undefined : shown
    })
    expect({ idle, serving, menu }).toEqual({
      idle: {
        image: 'idleTemplate.png',
        isTemplate: true,
        toolTip: 'Metalbar\nServing no models\nsim (default) · Live',
        title: '',
        cpuMs: expect.any(Number) as unknown,
      },
      serving: {
        image: 'servingTemplate.png',
        isTemplate: true,
        toolTip: 'Metalbar\nServing 1 model\nsim (default) · Live',
        title: '',
        cpuMs: expect.any(Number) as unknown,
      },
      menu: [
        expect.stringMatching(/^\(Serving 1 model · [\d.]+ [kMG]?B of [\d.]+ [MG]B/),
        '(sim (default) · Live)',
        expect.stringContaining('--allow-unsafe-extra-args is set'),
        ...(process.platform === 'darwin' ? [] : [expect.stringContaining('no Metal') as string]),
        expect.stringContaining('192.0.2.10 is on no interface of this machine'),
        ...['-', ...(isDrivenPacked() ? ['Open Metalbar at login', '-'] : [])],
        {
          label: expect.stringMatching(/^● tiny {3}[\d.]+ [kM]B$/) as unknown,
          entries: [
            expect.stringMatching(/^\(Serving at 192\.0\.2\.10:\d+\. 192\.0\.2\.10 is on no interface /),
            '-',
            'Stop',
            'Restart',
            'Evict from memory',
            'Protect',
            '-',
            'Copy URL',
            'Show log',
            'Show in window',
          ],
        },
        '-',
        { label: 'Context', entries: ['✓ sim', '-', 'Reload kubeconfig'] },
        { label: 'Host address', entries: expect.arrayContaining(['Automatic']) as unknown },
        'Pause this machine',
        '-',
        'Open Metalbar',
        'Settings…',
        {
          label: 'This app',
          entries: [
            'Open in its own window',
            'Show figures beside the icon',
            '✓ Ask before quitting',
            '✓ Notifications',
            ...(isDrivenPacked() ? ['Open at login', 'Install the command metal-agent'] : []),
          ],
        },
        'Quit…',
      ],
    })
  })

  test('ctrl-click opens the menu as right-click does, and what is in it can be chosen as long as it is open', async () => {
    await using app = await ShellApp.start({ preferences: {} })
    await app.icon('disconnected')
    await app.menu()
    await app.ask({ do: 'closeMenu' })
    await app.ask({ do: 'collectGarbage' })
    await app.ask({ do: 'clickIcon', ctrlKey: true })
    await eventually(async () => (await app.look()).isMenuOpen, { what: 'the menu' })
    const windows = (await app.look()).windows.length
    await app.ask({ do: 'collectGarbage' })
    await app.ask({ do: 'choose', labels: ['This app', 'Ask before quitting'] })
    await eventually(async () => JSON.stringify(await app.json('preferences.json')).includes('"onQuit":"drain"'))
    expect(windows).toBe(0)
  })

  test('where macOS has no room for the icon the window opens with one in the Dock, and a person is told why, once', async ({
    skip,
  }) => {
    skip(isOnElectron, 'on the stand-in alone: Electron does not say which windows are panels')
    await using folder = await temporaryFolder()
    const start = async (options: ShellAppOptions = {}) => {
      const app = await ShellApp.start({ folder: folder.dir, ...options })
      await eventually(async () => (await app.look()).icon)
      await app.ask({ do: 'moveIcon', bounds: { x: 0, y: 1_117, width: 32, height: 22 } })
      await eventually(async () => (await app.look()).windows[0]?.isVisible)
      return app
    }
    {
      await using first = await start({ preferences: {} })
      const shown = await first.look()
      await first.press('OK')
      await eventually(async () =>
        JSON.stringify(await first.json('preferences.json')).includes('"hiddenIconTold":true'),
      )
      expect([shown.isInDock, shown.windows[0]?.isPanel]).toEqual([true, false])
    }
    await using second = await start()
    expect(await second.ask({ do: 'question' })).toBeUndefined()
  })

  test('Stop ends the server and says so in the cluster, Start brings it back', async () => {
    await using world = await servingWorld()
    await using app = await startApp(world)
    const pid = await app.serve(world, 'tiny')
    await app.choose('● tiny', 'Stop')
    await app.icon('idle')
    await eventually(() => !lives(pid))
    const suspended = world.isSuspended('tiny')
    await eventually(() => app.choose('○ tiny', 'Start').then(() => true))
    await app.icon('serving')
    expect({ suspended, after: world.isSuspended('tiny') }).toEqual({ suspended: true, after: false })
  })

  test('Quit withdraws and stops what is served, and leaves nothing', async () => {
    await using world = await servingWorld()
    await using app = await startApp(world)
    const pid = await app.serve(world, 'tiny')
    const code = await app.quit()
    expect({
      code,
      serverLives: lives(pid),
      left: (await readdir(app.stateDir)).filter((name) => /lock|sock/i.test(name)),
      log: (await app.messages()).filter((msg) => /^(stopp|withdrew)/.test(msg) && msg !== 'stopping server'),
    }).toEqual({
      code: 0,
      serverLives: false,
      left: [],
      log: ['stopping metalbar', 'withdrew endpoint', 'stopped metalbar'],
    })
  })

  test.for(['thrown', 'rejected'] as const)(
    'a defect that is %s has the app started again, which takes over what serves and tells of it; a second one within a minute ends it',
    async (how) => {
      await using world = await servingWorld()
      await using folder = await temporaryFolder()
      const options = { folder: folder.dir, kubeconfig: world.sim.kubeconfig(), preferences: world.preferences }
      await using app = await ShellApp.start(options)
      const pid = await app.serve(world, 'tiny')
      await app.ask({ do: 'fail', message: 'a defect', how }).catch(() => undefined)
      const code = await app.exited
      const messages = await app.messages()
      expect({
        code,
        serverLives: lives(pid),
        told: messages.filter((msg) => /^(defect|servers keep running|withdrew)/.test(msg)),
      }).toEqual({ code: 1, serverLives: true, told: ['defect', 'servers keep running'] })
      const relaunched = path.join(folder.dir, 'home/relaunched')
      const args = (await readFile(relaunched, 'utf8')).split('\n').filter((one) => one.startsWith('--'))
      await rm(relaunched)
      await using next = await ShellApp.start({ ...options, args })
      await next.icon('serving')
      expect(await next.serverOf('tiny')).toBe(pid)
      await eventually(async () => (await next.log()).includes('Metalbar was restarted'), { what: 'the notification' })
      await next.ask({ do: 'fail', message: 'a defect', how }).catch(() => undefined)
      expect([await next.exited, existsSync(relaunched), lives(pid)]).toEqual([1, false, true])
      process.kill(pid, 'SIGKILL')
    },
  )

  test.for([false, true])(
    'whoever asks the agent to shut down ends the app; what serves is kept: %s',
    async (keeps) => {
      await using world = await servingWorld()
      await using app = await startApp(world)
      const pid = await app.serve(world, 'tiny')
      await using client = await connectToAgent({
        socketPath: socketPathFor(app.stateDir, tmpdir()),
        stateDir: app.stateDir,
      })
      const { outcome } = await client.command({ name: 'shutdown', ...(keeps && { keepServing: true }) })
      const code = await app.exited
      const serverLives = lives(pid)
      if (keeps) process.kill(pid, 'SIGKILL')
      expect({ outcome, code, last: (await app.messages()).at(-1), serverLives }).toEqual({
        outcome: 'accepted',
        code: 0,
        last: 'stopped metalbar',
        serverLives: keeps,
      })
    },
  )

  test('without a kubeconfig the icon says what is missing, and nothing is claimed to be served', async () => {
    await using app = await ShellApp.start({ preferences: {} })
    const { toolTip } = await app.icon('disconnected', 'kubeconfig')
    expect(toolTip.split('\n').slice(0, 2)).toEqual(['Metalbar', 'Serving no models'])
  })

  test('preferences that cannot be used start no agent and are named, until Reset sets them aside', async () => {
    await using app = await ShellApp.start({ preferences: { showTitle: 'yes' } })
    const { toolTip } = await app.icon('disconnected', 'preferences.json')
    expect(toolTip.replace(app.stateDir, '…')).toBe(
      'Metalbar\nThe preferences …/preferences.json cannot be used: "showTitle" must be true or false; repair the file and open Metalbar again, or choose Reset preferences in the menu.',
    )
    const before = await app.messages()
    await app.choose('Reset preferences')
    await app.icon('disconnected', 'kubeconfig')
    const aside = (await readdir(app.stateDir)).filter((name) => name.startsWith('preferences.json'))
    expect([before.includes('starting metal-agent'), aside]).toEqual([
      false,
      [expect.stringMatching(/^preferences\.json\.broken-\d+$/)],
    ])
  })
})

test('start settings that cannot be used start no agent and can be reset, although the preferences are fine', async () => {
  await using folder = await temporaryFolder()
  const stateDir = stateDirIn(folder.dir)
  await mkdir(stateDir, { recursive: true, mode: 0o700 })
  await writeFile(path.join(stateDir, 'start-settings.json'), '{ "prot": 0 }')
  await using app = await ShellApp.start({ folder: folder.dir })
  await app.icon('disconnected', 'start-settings.json')
  const quit = (await app.menu()).at(-1)
  await app.choose('Reset preferences')
  await app.icon('disconnected', 'kubeconfig')
  expect([quit, (await readdir(stateDir)).filter((name) => name.startsWith('start-settings'))]).toEqual([
    'Quit…',
    [expect.stringMatching(/^start-settings\.json\.broken-\d+$/)],
  ])
})

describe('what is chosen in the menu', () => {
  test('a context is moved to: what ran for the first comes down, what the other wants is served, and production is asked about', async () => {
    await using world = await servingWorld()
    await using other = await servingWorld()
    await using app = await ShellApp.start({
      kubeconfig: kubeconfigOf({ sim: world.sim.connection().server, 'prod-eu': other.sim.connection().server }),
      preferences: world.preferences,
    })
    world.apply('tiny')
    other.apply('of-the-other')
    await app.icon('serving')
    const pid = await app.serverOf('tiny')
    // The list may come after the first menu on a machine that does something else besides.
    await eventually(() => app.choose('Context', 'prod-eu (asks first)').then(() => true))
    await app.press('Cancel')
    // Else one click would do hours later what was declined.
    await eventually(async () => !JSON.stringify(await app.menu()).includes('Serve \\"prod-eu\\"'))
    expect(lives(pid)).toBe(true)
    await eventually(() => app.choose('Context', 'prod-eu (asks first)').then(() => true))
    await app.press('Serve "prod-eu"')
    await app.icon('serving', 'prod-eu (default) · Live')
    await eventually(async () => {
      const entry = (await app.menu()).find((one) => typeof one !== 'string' && one.label === 'Context')
      return typeof entry === 'object' && entry.entries.includes('✓ prod-eu')
    })
    expect([lives(pid), world.published('tiny'), other.published('of-the-other')]).toEqual([
      false,
      undefined,
      '192.0.2.10',
    ])
    expect(z.object({ context: z.string() }).parse(await app.json('settings.json')).context).toBe('prod-eu')
  })

  test('Pause withdraws the model and keeps its process, Resume publishes it again; its URL and its log are at hand', async () => {
    await using world = await servingWorld()
    await using app = await startApp(world)
    const pid = await app.serve(world, 'tiny')
    await app.choose('● tiny', 'Copy URL')
    await app.choose('● tiny', 'Show log')
    const opened = z.array(z.string()).parse(
      await eventually(async () => {
        const files = z.array(z.string()).parse(await app.ask({ do: 'opened' }))
        return files.length > 0 && files
      }),
    )
    expect([await app.ask({ do: 'clipboard' }), opened]).toEqual([
      expect.stringMatching(/^http:\/\/tiny\.default\.svc/),
      [expect.stringMatching(/tiny.*\/output\.log$/)],
    ])
    await app.choose('Pause this machine')
    await app.icon('idle', 'This machine is paused')
    await eventually(() => world.published('tiny') === undefined)
    await app.choose('Resume this machine')
    await app.icon('serving')
    expect(await app.serverOf('tiny')).toBe(pid)
  })

  test('figures beside the icon stay chosen over a start', async () => {
    await using folder = await temporaryFolder()
    await using app = await ShellApp.start({ folder: folder.dir, preferences: {} })
    await app.icon('disconnected', 'kubeconfig')
    await app.choose('This app', 'Show figures')
    await eventually(async () => /^0 · 0 GB/.test((await app.look()).icon?.title ?? ''))
    await app.quit()
    await using next = await ShellApp.start({ folder: folder.dir })
    await eventually(async () => /^0 · 0 GB/.test((await next.look()).icon?.title ?? ''))
  })
})

describe('Quit', () => {
  test('asks while models run here: they may be kept, and the answer may be remembered', async () => {
    await using world = await servingWorld()
    await using app = await startApp(world)
    const pid = await app.serve(world, 'tiny')
    await app.choose('Quit…')
    await app.press('Keep in menu bar')
    expect(lives(pid)).toBe(true)
    await app.choose('Quit…')
    await app.press('Keep in menu bar', { isChecked: true })
    await eventually(async () => (await app.menu()).at(-1) === 'Quit: drain and stop')
    await app.ask({ do: 'chooseInBar', labels: ['Metalbar', 'Quit'] })
    // While it ends there is nothing to quit.
    expect((await app.menu()).at(-1)).toBe('Quit: drain and stop')
    expect([lives(pid), await app.json('preferences.json')]).toMatchObject([true, { showTitle: false, onQuit: 'keep' }])
    expect([await app.quit(), lives(pid)]).toEqual([0, false])
  })

  test('what was chosen is done although it cannot be remembered, and the menu says so', async () => {
    await using world = await servingWorld()
    await using app = await startApp(world)
    const pid = await app.serve(world, 'tiny')
    const file = path.join(app.stateDir, 'preferences.json')
    // An installed app has remembered by then that it offered to be opened at login.
    if (isDrivenPacked())
      await eventually(async () => (await readFile(file, 'utf8')).includes('loginItemOffered": true'))
    await rename(file, `${file}.before`)
    // Cannot be written over, as on a disk that is full.
    await mkdir(path.join(file, 'in-the-way'), { recursive: true })
    await app.choose('Quit…')
    await app.press('Keep in menu bar', { isChecked: true })
    await eventually(async () => JSON.stringify(await app.menu()).includes('your choice was not saved'))
    expect([lives(pid), (await app.menu()).at(-1)]).toEqual([true, 'Quit…'])
  })

  test('a shutdown of the system is given time, withdraws and stops what is served, and asks nothing', async () => {
    await using world = await servingWorld()
    await using app = await startApp(world)
    const pid = await app.serve(world, 'tiny')
    const isDelayed = await app.ask({ do: 'power', event: 'shutdown' })
    expect([isDelayed, await app.exited, lives(pid), world.published('tiny')]).toEqual([true, 0, false, undefined])
  })
})

describe('beside another program', () => {
  test('a second app ends, and the first one opens its window', async ({ skip }) => {
    skip(isOnElectron, 'on the stand-in alone: Playwright cannot drive an Electron that ends as it starts')
    await using app = await ShellApp.start({ preferences: {} })
    await app.icon('disconnected', 'kubeconfig')
    await using second = await ShellApp.start({ folder: app.folder })
    const code = await second.exited
    await eventually(async () => (await app.look()).windows[0]?.isVisible)
    expect({ code, windows: (await app.look()).windows.length }).toEqual({ code: 0, windows: 1 })
  })

  test('where an agent runs on the state folder, the app shows that one, and leaves it running when it quits', async () => {
    await using world = await servingWorld()
    await using beside = await agentBesideApp(world)
    const { agent, folder } = beside
    await using app = await ShellApp.start({ folder })
    world.apply('tiny')
    await app.icon('serving')
    const quit = (await app.menu()).at(-1)
    const pid = await app.serverOf('tiny')
    await app.choose('● tiny', 'Stop')
    // A server that is being stopped counts as idle already.
    await eventually(() => !lives(pid), { what: 'the end of the server' })
    await app.icon('idle')
    expect({ quit, code: await app.quit(), agentRuns: agent.exit === undefined }).toEqual({
      quit: 'Quit: the agent keeps running',
      code: 0,
      agentRuns: true,
    })
  })
})

/** The first is the current one. */
function kubeconfigOf(servers: Readonly<Record<string, string>>): string {
  const names = Object.keys(servers)
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': names[0],
    clusters: names.map((name) => ({ name, cluster: { server: servers[name], 'insecure-skip-tls-verify': true } })),
    users: [{ name: 'admin', user: { token: 'kube-sim-admin-token' } }],
    contexts: names.map((name) => ({ name, context: { cluster: name, user: 'admin' } })),
  })
}

function startApp(world: ServingWorld): Promise<ShellApp> {
  return ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences })
}

test('where sudo lacks the rule, Measure power shows its script, has Terminal open it, and says what sudo allows then', async ({
  skip,
}) => {
  skip(isOnElectron, 'on the stand-in alone: the script names what runs the app, which is Node.js there')
  if (process.platform !== 'linux') skip('only where the script ends at once: on a Mac it would ask for a password')
  const listing = spawnSync('/usr/bin/sudo', ['-n', '-l'], { encoding: 'utf8' })
  if (listing.error || listing.stdout.includes('NOPASSWD')) skip('needs a sudo that gives this user no leave yet')

  await using folder = await temporaryFolder()
  await using standIns = await powerStandIns()
  await standIns.mode('asks')
  const stateDir = stateDirIn(folder.dir)
  const started = await hostAgent({
    settings: agentSettings.parse({
      ...{ stateDir, port: 0, modelStore: path.join(folder.dir, 'models'), kubeconfig: path.join(folder.dir, 'none') },
      applePowerEnabled: true,
    }),
    platform: new StatedMemory().platform,
    log: new Recorder(),
    version: 'v0-test',
    env: {},
    temporaryDir: tmpdir(),
    windowFolder: folder.dir,
    powerTrial: { platform: 'darwin', commands: standIns.commands },
  })
  if (!started.ok) throw new Error(started.message)
  await using parts = new AsyncDisposableStack()
  parts.defer(async () => {
    await started.hosted.stop()
  })
  parts.defer(started.hosted.door.subscribe(() => undefined, 'window'))

  await using app = await ShellApp.start({ folder: folder.dir })
  await eventually(() => app.choose('Measure power').then(() => true), { what: 'the entry in the menu' })
  const asked = question.parse(await eventually(() => app.ask({ do: 'question' }), { what: 'the question' }))
  expect(asked.buttons).toEqual(['Open Terminal', 'Cancel'])
  expect(asked.detail).toContain(`'${process.execPath}' '${path.resolve('out/cli/metal-agent.js')}' power install`)
  await app.ask({ do: 'press', button: 'Open Terminal' })
  const [file = ''] = z.array(z.string()).parse(
    await eventually(async () => {
      const opened = z.array(z.string()).parse(await app.ask({ do: 'opened' }))
      return opened.length > 0 && opened
    }),
  )
  expect([await readFile(file, 'utf8'), (await stat(file)).mode & 0o777]).toEqual([asked.detail, 0o700])
  // On Linux the app's own command says that there is no power to measure, and the script ends as where a password was wrong.
  spawnSync(file)
  const answer = await eventually(async () =>
    (await app.menu()).find((entry) => typeof entry === 'string' && entry.includes('sudo')),
  )
  expect([answer, existsSync(path.dirname(file))]).toEqual([
    '(sudo does not let this user measure power yet: the output in Terminal says why.)',
    false,
  ])
})

const question = z.object({ detail: z.string(), buttons: z.array(z.string()) })
