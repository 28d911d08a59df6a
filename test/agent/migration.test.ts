import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { InstallationError } from '../../src/installation/installation-host.ts'
import { inspect, type Inspection, type MigrationWorld } from '../../src/installation/migration/inspect.ts'
import { confirm, migrate, undo } from '../../src/installation/migration/migrate.ts'
import { MigrationRecord } from '../../src/installation/migration/record.ts'
import { useKubeSim, useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import type { KubeObject } from '../support/control-plane/admin-client.ts'
import { eventually } from '../support/eventually.ts'
import { exists } from '../support/exists.ts'
import { followService } from '../support/go-agent/follow-service.ts'
import { GoAgentWorld } from '../support/go-agent/go-agent-world.ts'

const withClusterIp = z.object({ clusterIP: z.string() })

const isRunning = async (pid: number): Promise<boolean> => (await hostPlatform().process(pid)) !== undefined
const untilEnded = (pid: number) =>
  eventually(async () => !(await isRunning(pid)), { what: `the end of process ${pid}` })

const look = async (
  world: MigrationWorld,
  { ownFlags = [], stopsOthers = false }: { ownFlags?: string[]; stopsOthers?: boolean } = {},
): Promise<Inspection> => {
  const { value } = await MigrationRecord.open(world.stateDir)
  return inspect(world, {
    plist: undefined,
    ownFlags,
    stopsOthers,
    begun: value?.phase === 'begun' ? value : undefined,
  })
}

const gguf = (bytes: number) => Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(bytes)])
/** What our agent refuses and the Go agent passes on. */
const refusedSpec = { extraArgs: ['--log-file', '/tmp/x'] }
const ourStarts = ({ own }: GoAgentWorld) =>
  own.flatMap(({ log }) => log.filter(({ msg }) => msg === 'started inference service').map((line) => line['name']))

describe('a move from the Go agent', () => {
  const api = useRealApiServer()

  test('restarts each model once, one after the other, and leaves Services, addresses and model files as they were; --undo gives all of it back', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    const names = ['one', 'two']
    for (const name of names) await scene.apply(name)
    await scene.startGoAgent({}, names)
    const plist = await readFile(scene.plistFile, 'utf8')
    const before = await Promise.all(names.map((name) => scene.cluster.service(name)))
    const followed = await Promise.all(
      names.map((name) => followService(scene.connection, scene.cluster.namespace, name)),
    )
    const goPid = (await scene.goAgentPid()) ?? 0
    const world = scene.world()
    const inspection = await look(world)
    expect(inspection.problems).toEqual([])
    const record = await MigrationRecord.open(scene.stateDir)
    const result = await migrate(world, inspection, record)
    const stories = await Promise.all(followed.map((one) => one.end()))

    expect(result).toMatchObject({ outcome: 'done', isWell: true })
    const starts = await Promise.all(names.map((name) => scene.goStarts(name)))
    expect([starts.map(({ length }) => length), ourStarts(scene).toSorted()]).toEqual([[1, 1], names])
    for (const pid of [goPid, ...starts.flat()]) expect(await isRunning(pid)).toBe(false)
    // Of requests, one every 10 ms: one time without an answer for each, and never of both at once.
    expect(stories.map(({ gaps }) => gaps.length)).toEqual([1, 1])
    const [[first] = [], [second] = []] = stories
      .map(({ gaps }) => gaps)
      .toSorted((a, b) => (a[0]?.from ?? 0) - (b[0]?.from ?? 0))
    expect(first && second && first.to <= second.from).toBe(true)
    const after = await Promise.all(names.map((name) => scene.cluster.service(name)))
    const lasting = (one: KubeObject | undefined) => [one?.metadata.uid, withClusterIp.parse(one?.['spec'])]
    expect(after.map(lasting)).toEqual(before.map(lasting))
    for (const name of names) {
      const file = path.join(name, 'tiny.gguf')
      expect(await scene.inode(path.join(scene.ownStore, file))).toBe(await scene.inode(path.join(scene.store, file)))
      expect(await scene.cluster.published(name)).toMatchObject({ address: '192.0.2.10', ready: true })
    }
    // The port of /healthz was the Go agent's until it ended.
    expect([(await fetch(`http://127.0.0.1:${scene.healthPort}/healthz`)).status, scene.own.length]).toEqual([200, 2])
    expect([await exists(scene.plistFile), await scene.launchctlCalls()]).toEqual([
      false,
      [expect.stringContaining('bootstrap'), expect.stringContaining('bootout')],
    ])

    const ports = await Promise.all(names.map((name) => scene.untilPublished(name)))
    await undo(world, record)
    await eventually(async () => {
      const published = await Promise.all(names.map((name) => scene.cluster.published(name)))
      return published.every((one, index) => one?.ready === true && one.port !== ports[index])
    })
    expect(await readFile(scene.plistFile, 'utf8')).toBe(plist)
    expect(scene.own.at(-1)?.exit).toMatchObject({ code: 0 })
    expect([
      await exists(path.join(scene.ownStore, 'one/tiny.gguf')),
      await exists(path.join(scene.store, 'one/tiny.gguf')),
    ]).toEqual([false, true])
    await expect(undo(world, record)).rejects.toThrow('There is no migration to undo.')
  })
})

describe('a move from the Go agent that does not go well', () => {
  const api = useKubeSim()

  test('is taken back by itself where the first model does not start here, and the others are never touched', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    await scene.apply('bad', { spec: refusedSpec })
    await scene.apply('good', { bytes: gguf(5_000) })
    await scene.startGoAgent({}, ['bad', 'good'])
    const good = await scene.goStarts('good')
    const world = scene.world()
    const inspection = await look(world)
    expect(inspection.refusals).toEqual([
      expect.stringContaining('/bad would not be served: spec.extraArgs: --log-file is refused'),
    ])
    const record = await MigrationRecord.open(scene.stateDir)
    expect([(await migrate(world, inspection, record)).outcome, record.value?.phase]).toEqual(['takenBack', 'undone'])
    await eventually(async () => (await scene.goStarts('bad')).length === 2)
    await scene.untilPublished('bad')
    expect([await scene.goStarts('good'), await isRunning(good[0] ?? 0), await exists(scene.plistFile)]).toEqual([
      good,
      true,
      true,
    ])
  })

  test('continues where it stood when it is begun again, names a later model that does not start here, and is final when it is confirmed', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    await scene.apply('one')
    await scene.apply('refused', { spec: refusedSpec, bytes: gguf(5_000) })
    await scene.startGoAgent({}, ['one', 'refused'])
    const [[one = 0], [refused = 0]] = [await scene.goStarts('one'), await scene.goStarts('refused')]
    const world = scene.world()
    const tell = (sentence: string): void => {
      if (sentence.includes('serves here')) throw new Error('the power went')
    }
    const record = await MigrationRecord.open(scene.stateDir)
    await expect(migrate({ ...world, tell }, await look(world), record)).rejects.toThrow('the power went')
    expect(record.value).toMatchObject({ phase: 'begun', isInstalled: true })
    expect([await isRunning(one), await isRunning(refused)]).toEqual([false, true])

    const again = await MigrationRecord.open(scene.stateDir)
    const result = await migrate(world, await look(world), again)
    expect([result.outcome, result.isWell, result.moved[0]?.failure]).toEqual([
      'done',
      false,
      expect.stringContaining('--log-file'),
    ])
    expect([ourStarts(scene), await scene.goStarts('one')]).toEqual([['one'], [one]])
    await confirm(world, again)
    const files = [scene.store, scene.ownStore].map((store) => exists(path.join(store, 'one/tiny.gguf')))
    expect([await Promise.all(files), again.value]).toEqual([[false, true], undefined])
  })

  test('is taken back when a person gives up in the middle, and what was moved is the Go agent’s again', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    for (const name of ['one', 'two']) await scene.apply(name)
    await scene.startGoAgent({}, ['one', 'two'])
    const gaveUp = new AbortController()
    const tell = (sentence: string): void => {
      if (sentence.includes('serves here')) gaveUp.abort()
    }
    const world = scene.world({ signal: gaveUp.signal, tell })
    const [two = 0] = await scene.goStarts('two')
    const result = await migrate(world, await look(world), await MigrationRecord.open(scene.stateDir))
    expect(result.outcome).toBe('takenBack')
    await eventually(async () => (await scene.goStarts('one')).length === 2)
    await scene.untilPublished('one')
    expect([await scene.goStarts('two'), await isRunning(two)]).toEqual([[two], true])
  })

  test('waits where this agent has not heard yet that the Go agent gave a service up', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    await scene.apply('one')
    await scene.startGoAgent({}, ['one'])
    let late = 0
    const tell = (sentence: string): void => {
      if (sentence.includes('its requests finish')) late = 2
    }
    const world = scene.world({ tell })
    // Seen before the move goes on: after that the service may be nobody's before anybody looks.
    let before: Awaited<ReturnType<MigrationWorld['ownAgent']>>
    const ownAgent: MigrationWorld['ownAgent'] = async () => {
      if (before) return late-- > 0 ? before : world.ownAgent()
      const now = await world.ownAgent()
      if (now?.cluster.state !== 'live') return now
      before = await eventually(async () => {
        const seen = await world.ownAgent()
        return seen?.services[0]?.state === 'foreign' ? seen : undefined
      })
      return before
    }
    const record = await MigrationRecord.open(scene.stateDir)
    const result = await migrate({ ...world, ownAgent }, await look(world), record)
    expect([result, late < 0]).toMatchObject([{ outcome: 'done', isWell: true }, true])
  })

  test('whose service could not be installed goes on with that when it is repeated', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    await scene.apply('one')
    await scene.startGoAgent({}, ['one'])
    const world = scene.world()
    const record = await MigrationRecord.open(scene.stateDir)
    const install = () => Promise.reject(new InstallationError('nobody is logged in at the screen'))
    const without = { ...world, service: { ...world.service, install } }
    await expect(migrate(without, await look(without), record)).rejects.toThrow('nobody is logged in')
    expect(await migrate(world, await look(world), record)).toMatchObject({ outcome: 'done', isWell: true })
    expect(ourStarts(scene)).toEqual(['one'])
  })

  test('stops before anything changes hands where the Go agent that was looked at is not there any more', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    await scene.startGoAgent()
    const world = scene.world()
    const inspection = await eventually(async () => {
      const looked = await look(world)
      return looked.agent ? looked : undefined
    })
    const pid = inspection.agent?.pid ?? 0
    process.kill(pid, 'SIGKILL')
    await untilEnded(pid)
    await expect(migrate(world, inspection, await MigrationRecord.open(scene.stateDir))).rejects.toThrow(
      `The Go agent that was checked, process ${pid}, has ended in the meantime`,
    )
  })

  test('takes a Go agent that was started by hand, ends a second one only when that is wanted, and says how it is started again', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    await scene.apply('one')
    const pid = await scene.startByHand()
    await scene.untilPublished('one')
    const world = scene.world()
    expect((await look(world)).kept[0]).toContain(`(started by hand): process ${pid} with 1 server.`)
    const second = await scene.startByHand(['--namespace', 'nowhere', '--kubeconfig', scene.kubeconfig, '--port', '0'])
    const both = await eventually(async () => (await look(world)).problems[0])
    expect(both).toMatch(
      /^2 Go agents run; process \d+ would be moved\. End process \d+ \(.*\) with "kill \d+", or use --stop-others\.$/,
    )
    const inspection = await look(world, { stopsOthers: true })
    expect([inspection.problems, inspection.others.map((other) => other.pid)]).toEqual([[], [second]])
    const record = await MigrationRecord.open(scene.stateDir)
    expect(await migrate(world, inspection, record)).toMatchObject({ outcome: 'done', isWell: true })
    await Promise.all([pid, second].map(untilEnded))
    await undo(world, record)
    expect(scene.told.at(-1)).toContain(`To start it again: ${scene.program}`)
  })

  test('from 0.10 is planned with --legacy-direct-endpoints, and refused from a relay mode without its identity, where nothing is touched', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    await scene.apply('one')
    await scene.startGoAgent({ version: 'v0.10.1', args: ['--legacy-direct-endpoints'] }, ['one'])
    const plan = await look(scene.world())
    expect([plan.problems, plan.transfers.length]).toEqual([[], 1])
    expect(plan.flags).toContain('--legacy-direct-endpoints=true')
    await scene.writePlist({ version: 'v0.10.1' })
    const relay = await look(scene.world())
    expect(relay.problems).toEqual([expect.stringContaining('certificate and key by which relays know it are not in')])
    expect(await exists(scene.ownStore)).toBe(false)
  })

  test('says that there is no cluster, and still what it would do on this machine', async () => {
    await using scene = await GoAgentWorld.open(api().connection)
    await scene.apply('one')
    await scene.writePlist({ args: ['--kubeconfig', '/nowhere/config'] })
    const plan = await look(scene.world())
    expect(plan.problems[0]).toMatch(
      /^The cluster does not answer, and no service can move without it: .*\/nowhere\/config/,
    )
    expect(plan.kept).toContainEqual(expect.stringContaining('1 file gets a second name'))
  })
})
