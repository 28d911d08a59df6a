import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { servingWorld } from '../support/serving-world.ts'
import { lives, type ShellApp } from '../support/shell-app.ts'
import { missingPrograms, skipWhen } from '../support/skip.ts'
import { act, stateOf, untilStep, updateWorld } from '../support/update-world.ts'

const look = async (app: ShellApp, step = 'available') => {
  await act(app, 'look')
  return untilStep(app, step)
}

const ready = async (app: ShellApp) => {
  await look(app)
  await act(app, 'download')
  return untilStep(app, 'downloaded')
}

/** Everything that ends in a sentence, with the app as it was. */
const failure = async (app: ShellApp) => (await untilStep(app, 'failed'))['message']

skipWhen(missingPrograms('zip', 'unzip'))

describe.concurrent('an update', () => {
  test('is asked for by nobody until a person does, and then comes in steps that each are asked for', async () => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.3', others: ['Metalbar-1.2.3-arm64-mac.zip'] })
    await using app = await world.start({ preferences: {} })
    await app.icon('disconnected', 'kubeconfig')
    const before = world.server.requests.length
    const found = await look(app)
    const looked = world.server.requests.filter(({ path: asked }) => asked.endsWith('.zip')).length
    await act(app, 'download')
    await untilStep(app, 'downloaded')
    const menu = JSON.stringify(await app.menu())
    expect({
      before,
      found,
      looked,
      idsOfThisMac: world.server.requests.map(({ headers }) => headers['x-user-staging-id'] ?? '').filter(Boolean),
      version: world.version(),
      offers: menu.includes('Restart to update to 1.2.3'),
    }).toEqual({
      before: 0,
      found: {
        step: 'available',
        version: '1.2.3',
        bytes: expect.toSatisfy((bytes: number) => bytes > 100_000) as unknown,
      },
      looked: 0,
      idsOfThisMac: [],
      version: '1.2.2',
      offers: true,
    })
  })

  test('takes the place of the app while its server goes on: the same process, no failed request, and the next start says so', async () => {
    await using world = await updateWorld()
    await using cluster = await servingWorld()
    await world.publish({ version: '1.2.3' })
    await using app = await world.start({ kubeconfig: cluster.sim.kubeconfig(), preferences: cluster.preferences })
    cluster.apply('tiny', {})
    await app.icon('serving')
    const pid = await app.serverOf('tiny')
    const { port = 0 } = await app.service('tiny')
    await ready(app)
    await using requests = requestsTo(port)
    await act(app, 'install')
    const code = await app.exited
    await eventually(() => world.version() === '1.2.3', { what: 'the new app in its place' })
    await using next = await world.start()
    await next.icon('serving')
    const failed = await requests.stop()
    expect([code, await next.serverOf('tiny'), lives(pid), failed]).toEqual([0, pid, true, 0])
    expect((await stateOf(next))?.lastUpdate).toEqual({ wanted: '1.2.3', runs: '1.2.3' })
    expect(JSON.stringify(await next.menu())).toContain('Metalbar is now 1.2.3.')
    await next.quit()
  })

  test('with another checksum is not installed, and the app runs on', async () => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.3', sha512: 'A'.repeat(86) + '==' })
    await using app = await world.start({ preferences: {} })
    await look(app)
    await act(app, 'download')
    expect([await failure(app), world.version()]).toEqual([expect.stringContaining('checksum differs'), '1.2.2'])
  })

  test.for([
    ['of another signer', { team: 'STRANGER99' }],
    ['that was changed since it was signed', { isTampered: true }],
  ] as const)('%s is not installed, and the app runs on', async ([, published]) => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.3', ...published })
    await using app = await world.start({ preferences: {} })
    await ready(app)
    await act(app, 'install')
    expect([await failure(app), world.version()]).toEqual([
      expect.stringContaining('not signed by the publisher'),
      '1.2.2',
    ])
  })

  test('of an app that is not signed is not downloaded as if macOS would take it', async () => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.3' })
    await rm(path.join(world.bundle, 'Contents/_CodeSignature/CodeResources'))
    await using app = await world.start({ preferences: {} })
    await look(app)
    await act(app, 'download')
    expect(await failure(app)).toContain('This app is not signed')
  })

  test('to an older version is refused', async () => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.1' })
    await using app = await world.start({ preferences: {} })
    const latest = await look(app, 'newest')
    expect([latest['offered'], await act(app, 'download')]).toEqual(['1.2.1', expect.stringContaining('has moved on')])
  })

  test.for([
    ['that is not there', undefined, 'no release'],
    ['that has an error', { kind: 'status', status: 503 }, 'reports an error'],
    ['that says what makes no sense', { kind: 'html' }, 'cannot be read'],
  ] as const)('from a server %s is a sentence', async ([, fault, sentence]) => {
    await using world = await updateWorld()
    if (fault) {
      for (const platform of ['mac', 'linux']) {
        world.server.serve(`/latest-${platform}.yml`, Buffer.from('x'), { fault })
      }
    }
    await using app = await world.start({ preferences: {} })
    await act(app, 'look')
    expect(await failure(app)).toContain(sentence)
  })

  test('from a server that cannot be reached is a sentence', async () => {
    await using world = await updateWorld()
    await world.server[Symbol.asyncDispose]()
    await using app = await world.start({ preferences: {} })
    await act(app, 'look')
    expect(await failure(app)).toContain('cannot be reached')
  })

  test('that breaks off half-way, or is cancelled there, leaves the app as it was, and can be had again', async () => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.3', serve: { fault: { kind: 'drop', afterBytes: 100_000 } } })
    await using app = await world.start({ preferences: {} })
    await look(app)
    await act(app, 'download')
    expect(await failure(app)).toContain('was interrupted')
    const slow = await world.publish({ version: '1.2.3', serve: { paced: true } })
    await look(app)
    await act(app, 'download')
    await eventually(() => slow.openResponses === 1)
    slow.allow(100_000)
    await act(app, 'cancel')
    await untilStep(app, 'available')
    await eventually(() => slow.openResponses === 0, { what: 'the connection to be closed' })
    await world.publish({ version: '1.2.3' })
    expect((await ready(app))['version']).toBe('1.2.3')
  })

  test('that the disk has no room for is not begun', async () => {
    await using world = await updateWorld()
    const archive = await world.publish({ version: '1.2.3', size: 1e15 })
    await using app = await world.start({ preferences: {} })
    await look(app)
    await act(app, 'download')
    expect([await failure(app), archive.requests.length]).toEqual([expect.stringContaining('Free some space'), 0])
  })

  test('that fills the disk on its way is a sentence, and comes whole when there is room again', async ({ skip }) => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.3' })
    using disk = smallDisk(path.join(world.dir, 'home/.cache'), '200k') ?? skip('needs the right to mount a tmpfs')
    await using app = await world.start({ preferences: {} })
    await look(app)
    await act(app, 'download')
    const sentence = await failure(app)
    disk.grow('8m')
    expect([sentence, world.version(), (await ready(app))['version']]).toEqual([
      expect.stringMatching(/^The disk is full, .* this version keeps running/),
      '1.2.2',
      '1.2.3',
    ])
  })

  test('before which the app is killed does not happen, and the next start says so', async () => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.3' })
    const app = await world.start({ preferences: {} })
    await ready(app)
    app.signal('SIGKILL')
    await app.exited
    const marker = { from: '1.2.2', to: '1.2.3', atMs: Date.now() }
    await writeFile(path.join(app.stateDir, 'update.json'), JSON.stringify(marker))
    await using next = await world.start()
    const state = await eventually(async () => {
      const now = await stateOf(next)
      return now?.lastUpdate !== undefined && now
    })
    const left = await readFile(path.join(app.stateDir, 'update.json')).catch(() => undefined)
    expect([state.lastUpdate, world.version(), left]).toEqual([{ wanted: '1.2.3', runs: '1.2.2' }, '1.2.2', undefined])
    expect((await ready(next))['version']).toBe('1.2.3')
  })

  test('that macOS does not take after all has the app opened again, with its servers alive', async () => {
    await using world = await updateWorld()
    await using cluster = await servingWorld()
    await world.publish({ version: '1.2.3' })
    await using app = await world.start({
      kubeconfig: cluster.sim.kubeconfig(),
      preferences: cluster.preferences,
      env: { ELECTRON_STAND_IN_SHIP_IT: 'fails' },
    })
    cluster.apply('tiny')
    await app.icon('serving')
    const pid = await app.serverOf('tiny')
    await ready(app)
    await act(app, 'install')
    await app.exited
    const opened = await readFile(path.join(world.dir, 'home/relaunched'), 'utf8')
    expect([opened, lives(pid)]).toEqual(['', true])
    await using next = await world.start()
    await next.icon('serving')
    expect([await next.serverOf('tiny'), world.version()]).toEqual([pid, '1.2.2'])
    expect((await stateOf(next))?.lastUpdate).toEqual({ wanted: '1.2.3', runs: '1.2.2' })
    await next.quit()
  })

  test('is none of the app where who manages the Mac brings it', async () => {
    await using world = await updateWorld()
    await world.publish({ version: '1.2.3' })
    await using app = await world.start({
      preferences: { looksForUpdates: true },
      env: { ELECTRON_STAND_IN_USER_DEFAULTS: JSON.stringify({ UpdatesManaged: true }) },
    })
    await app.icon('disconnected', 'kubeconfig')
    const refused = await act(app, 'look')
    expect([
      refused,
      JSON.stringify(await app.menu()).includes('Your administrator updates this Mac'),
      world.server.requests,
    ]).toEqual([expect.stringContaining('Your administrator updates this Mac'), true, []])
  })
})

/** Of the folder that updates are downloaded to; undefined where none may be mounted. */
function smallDisk(folder: string, size: string) {
  mkdirSync(folder, { recursive: true })
  const mount = (options: string) => spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status === 0
  if (!mount(`size=${size}`)) return undefined
  return {
    grow: (to: string) => void mount(`remount,size=${to}`),
    [Symbol.dispose]: () => void spawnSync('umount', ['--lazy', folder]),
  }
}

/** One after the other until it is stopped; answers how many failed. */
function requestsTo(port: number) {
  let failed = 0
  let isOver = false
  const ask = async () => {
    while (!isOver) {
      const answered = await fetch(`http://127.0.0.1:${port}/health`).then(
        ({ ok }) => ok,
        () => false,
      )
      if (answered) continue
      failed += 1
      await setImmediate()
    }
  }
  const asking = ask()
  const stop = async () => {
    isOver = true
    await asking
    return failed
  }
  return { stop, [Symbol.asyncDispose]: () => stop().then(() => undefined) }
}
