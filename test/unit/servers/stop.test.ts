import { readFile } from 'node:fs/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { isUnendable } from '../../../src/agent-core/servers/server-state.ts'
import { eventually } from '../../support/eventually.ts'
import { livingPids, platform, probedBy, ServerRoom } from './server-room.ts'

test('a stop ends the server in order and leaves nothing', async () => {
  await using room = await ServerRoom.create()
  room.start()
  const { pid, port } = await room.reached('ready')
  expect(await room.servers.stop('a/b')).toEqual({ stopped: true })
  expect(room.kinds()).toEqual(['starting', 'starting', 'ready', 'stopping', 'exited', 'settled'])
  expect(room.servers.get('a/b')).toMatchObject({
    cause: 'stopped',
    code: 0,
    failures: 0,
    message: 'sample-server.cjs was stopped.',
  })
  expect(room.servers.get('a/b')).not.toHaveProperty('retryAt')
  expect([await livingPids(pid), await platform.portListeners(port, pid)]).toEqual([[], { ours: [], others: [] }])
})

test('a server that ignores SIGTERM is killed after the grace', async () => {
  await using room = await ServerRoom.create()
  room.start({ ignoreSigterm: true })
  const { pid } = await room.reached('ready')
  expect(await room.servers.stop('a/b', { graceMs: 100 })).toEqual({ stopped: true })
  expect(room.servers.get('a/b')).toMatchObject({ cause: 'stopped', signal: 'SIGKILL', settled: true })
  expect((await room.settled()).tail.at(-1)).toBe('ignoring SIGTERM')
  expect(await livingPids(pid)).toEqual([])
})

test('one that must not be killed is waited for after SIGTERM, also when its grace is over', async () => {
  await using room = await ServerRoom.create()
  room.start({ ignoreSigterm: true }, { isNeverKilled: true })
  const { pid } = await room.reached('ready')
  const kill = vi.spyOn(process, 'kill')
  onTestFinished(() => kill.mockRestore())
  const stopping = room.servers.stop('a/b', { graceMs: 0, drainMs: 0 })
  await eventually(async () => (await readFile(room.files().logFile, 'utf8')).includes('ignoring SIGTERM'))
  expect(kill.mock.calls.filter(([, signal]) => signal !== 0)).toEqual([[-pid, 'SIGTERM']])
  process.kill(pid, 'SIGHUP')
  expect(await stopping).toEqual({ stopped: true })
})

test('a machine that sleeps after SIGTERM gives the server the rest of its grace when it wakes', async () => {
  await using room = await ServerRoom.create()
  room.start({ ignoreSigterm: true })
  await room.reached('ready')
  const awake = performance.now.bind(performance)
  const stoppedAt = awake()
  const stopping = room.servers.stop('a/b', { graceMs: 800, drainMs: 0 })
  const asleep = vi.spyOn(performance, 'now').mockImplementation(() => awake() + 3_600_000)
  onTestFinished(() => {
    asleep.mockRestore()
  })
  expect(await stopping).toEqual({ stopped: true })
  // The time in which it slept, here one step of 800 ms, does not count.
  expect(awake() - stoppedAt).toBeGreaterThan(1_500)
  expect(room.servers.get('a/b')).toMatchObject({ signal: 'SIGKILL' })
})

test('a server that does not end although it is killed is told, and killed again until it does', async () => {
  await using room = await ServerRoom.create()
  room.start({ ignoreSigterm: true })
  const { pid } = await room.reached('ready')
  const kill = process.kill.bind(process)
  const hanging = vi
    .spyOn(process, 'kill')
    .mockImplementation((group, signal) => signal === 'SIGKILL' || kill(group, signal))
  try {
    void room.servers.stop('a/b', { graceMs: 0 })
    const { hangs } = await room.reached('stopping', { where: (state) => state.hangs !== undefined })
    expect(hangs).toContain(`Process ${pid} was killed but has not exited`)
    expect(() => room.start()).toThrow('still has a server')
    expect(room.changes.filter(({ state }) => isUnendable(state))).toHaveLength(1)
  } finally {
    hanging.mockRestore()
  }
  expect(await room.settled()).toMatchObject({ cause: 'stopped', signal: 'SIGKILL' })
})

test('what is left of a server that ended is told, and nothing takes its place before it is gone', async () => {
  let isLeft = true
  const table = hostPlatform()
  const phantom = {
    pid: 1,
    groupId: 0,
    startTime: '',
    commandLine: 'phantom',
    residentBytes: 0,
    cpuMs: 0,
    suspended: false,
  }
  const processGroup = async (groupId: number) => [
    ...(await table.processGroup(groupId)),
    ...(isLeft ? [{ ...phantom, groupId }] : []),
  ]
  await using room = await ServerRoom.create({ platform: Object.assign(hostPlatform(), { processGroup }) })
  room.start()
  await room.reached('ready')
  void room.servers.stop('a/b')
  const { left } = await room.reached('exited', { where: (state) => state.left !== undefined })
  expect(left).toBe('Of its processes, 1 were killed but have not exited.')
  expect(() => room.start()).toThrow('still has a server')
  expect(room.changes.filter(({ state }) => isUnendable(state))).toMatchObject([{ state: { left } }])
  isLeft = false
  expect(await room.settled()).not.toHaveProperty('left')
})

test('a grandchild that left the group is not signalled, but told', async () => {
  await using room = await ServerRoom.create(probedBy(() => Promise.resolve({ kind: 'silent', reason: 'scripted' })))
  room.start({ grandchild: { ownGroup: true } })
  const { port = 0, pid = 0 } = await room.reached('starting', { where: (state) => state.pid !== undefined })
  const [grandchild] = await eventually(async () => {
    const { others } = await platform.portListeners(port, pid)
    return others.length > 0 ? others : undefined
  })
  try {
    const report = await room.servers.stop('a/b')
    expect(report).toMatchObject({
      stopped: false,
      message: expect.stringContaining(`taken by process ${grandchild?.pid ?? 0}`) as string,
    })
  } finally {
    if (grandchild?.pid !== undefined) process.kill(grandchild.pid, 'SIGKILL')
  }
})

describe('a stop at any time', () => {
  test('before there is a process', async () => {
    await using room = await ServerRoom.create()
    room.start()
    expect(await room.servers.stop('a/b')).toEqual({ stopped: true })
    expect(room.servers.get('a/b')).toMatchObject({
      kind: 'exited',
      settled: true,
      cause: 'stopped',
      code: null,
      signal: null,
    })
    expect(room.kinds()).toEqual(['starting', 'stopping', 'settled'])
  })

  test('when it is too late not to spawn, but nobody knows the process yet', async () => {
    await using room = await ServerRoom.create()
    const { argv } = room.launch()
    const stopped = Promise.withResolvers<unknown>()
    let times = 0
    const stopAsArgumentsAreMade = (port: number) => {
      // Without a port they only say where it will listen.
      if (port === 0) return argv(port)
      // The ledger notes them first; the second time the process is spawned in the same turn.
      times += 1
      if (times === 2) stopped.resolve(room.servers.stop('a/b', { graceMs: 1_000 }))
      return argv(port)
    }
    room.start({}, { argv: stopAsArgumentsAreMade })
    expect(await stopped.promise).toEqual({ stopped: true })
    const { pid = 0 } = await room.reached('stopping', { where: (state) => state.pid !== undefined })
    expect([room.kinds(), await livingPids(pid)]).toEqual([
      ['starting', 'stopping', 'stopping', 'exited', 'settled'],
      [],
    ])
  })
})

test('a shorter grace counts from when it is asked for, also after SIGTERM was sent', async () => {
  await using room = await ServerRoom.create()
  room.start({ ignoreSigterm: true })
  await room.reached('ready')
  const patient = room.servers.stop('a/b', { graceMs: 60_000, drainMs: 0 })
  const from = performance.now()
  expect(await room.servers.stop('a/b', { graceMs: 300 })).toEqual({ stopped: true })
  expect([await patient, performance.now() - from >= 300]).toEqual([{ stopped: true }, true])
  expect(room.servers.get('a/b')).toMatchObject({ signal: 'SIGKILL' })
})
