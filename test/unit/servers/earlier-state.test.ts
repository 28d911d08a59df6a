import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { adoptServers } from '../../../src/agent-core/servers/adoption.ts'
import { follow, tail } from '../../../src/agent-core/servers/output-reader.ts'
import { eventually } from '../../support/eventually.ts'
import { restoreState } from '../../support/recorded-state.ts'
import { silentLog } from '../../support/silent-log.ts'
import { livingPids, platform, ServerRoom } from './server-room.ts'

/** Of an agent whose state folder was left by a build in which runs had no folders. */
async function opened({ outputBytes = 1_000_000 } = {}) {
  await using stack = new AsyncDisposableStack()
  const room = stack.use(await ServerRoom.create({ outputLimits: () => ({ bytes: outputBytes, count: 2 }) }))
  const { servers: recorded } = stack.use(await restoreState(room.folder))
  const pidOf = (name: string) => recorded.find((one) => one.name === name)?.pid
  const { ledger, servers, folder: stateDir } = room
  const adopt = () => adoptServers({ ledger, servers, platform, log: silentLog, stateDir, rules: () => ({}) })
  const owned = stack.move()
  return { room, recorded, pidOf, adopt, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const earlierFilesOf = async (folder: string, service: string) => {
  const names = await Promise.all(['logs', 'work'].map((parent) => readdir(join(folder, parent))))
  return names.flat().filter((name) => name.startsWith(service))
}

test('servers that an earlier build started are taken over for what they are', async () => {
  await using scene = await opened()
  const { room, recorded, pidOf, adopt } = scene
  const { servers } = room
  expect(await adopt()).toEqual([])
  for (const key of ['team/chat', 'team/swapped', 'team/swapping']) await room.reached('ready', { key })
  expect([
    servers.get('team/chat'),
    servers.get('team/swapped'),
    servers.get('team/swapping'),
    servers.successor('team/swapping'),
    servers.retiring('team/swapping'),
  ]).toMatchObject([
    { kind: 'ready', pid: pidOf('team.chat') },
    { kind: 'ready', pid: pidOf('team.swapped~2') },
    { kind: 'ready', pid: pidOf('team.swapping~2') },
    undefined,
    { pid: pidOf('team.swapping') },
  ])
  for (const { key, name, digest } of recorded)
    expect(servers.digestOf(key, name === 'team.swapping' ? 'retiring' : 'current')).toBe(digest)
})

test('without their ledger they are known by where they work and write', async () => {
  await using scene = await opened()
  const { room, recorded, adopt } = scene
  await rm(join(room.folder, 'ledger.json'))
  expect(await adopt()).toEqual([])
  const found = recorded.map(({ key, digest }) =>
    (['current', 'successor'] as const).some((role) => room.servers.digestOf(key, role) === digest),
  )
  expect([found, room.servers.running]).toEqual([[true, true, true, true], 4])
})

test('their output goes on where it was, is read and followed there, and is bounded', async () => {
  await using scene = await opened({ outputBytes: 2_000 })
  const { room, adopt } = scene
  const { servers } = room
  await adopt()
  const output = servers.outputOf('team/chat')
  expect(servers.logFileOf('team/chat')).toBe(join(room.folder, 'logs', 'team.chat.log'))
  expect(servers.logFileOf('team/swapped')).toBe(join(room.folder, 'logs', 'team.swapped~2.log'))
  expect((await tail(output, { lines: 1_000 })).lines.join('\n')).toMatch(/listening[^]*listening/)
  expect((await tail(output, { lines: 1_000, run: 'previous' })).lines.at(-1)).toBe('error: the first run ended')
  const replaced = await tail(servers.outputOf('team/swapped'), { lines: 1_000, run: 'previous' })
  expect(replaced.lines.at(-1)).toContain('cleaning up before exit')

  const stop = new AbortController()
  const offsets: number[] = []
  for await (const { start, gap } of follow(output, { signal: stop.signal })) {
    expect(gap).toBeUndefined()
    offsets.push(start.offset)
    if (start.offset > 4_000) stop.abort()
  }
  expect(offsets).toEqual(offsets.toSorted((a, b) => a - b))
  const names = await readdir(join(room.folder, 'logs'))
  expect(names.filter((name) => /^team\.chat\.log\.\d+$/.test(name)).length).toBeGreaterThan(0)
})

test('their files are kept as the previous run of the next server, and are gone with the run after it', async () => {
  await using scene = await opened()
  const { room, pidOf, adopt } = scene
  const { servers, folder } = room
  await adopt()
  await room.reached('ready', { key: 'team/chat' })
  const output = servers.outputOf('team/chat')
  const { fileId } = (await output.extent()) ?? {}
  await servers.stop('team/chat', { drainMs: 0 })
  expect([await livingPids(pidOf('team.chat') ?? 0), (await output.extent())?.fileId]).toEqual([[], fileId])

  room.start({}, {}, 'team/chat')
  await room.reached('ready', { key: 'team/chat', where: ({ pid }) => pid !== pidOf('team.chat') })
  expect(servers.logFileOf('team/chat')).toMatch(/\/runs\/team\.chat\/[\dTZ-]+-1\/output\.log$/)
  const [current, previous] = [await output.extent(), await output.extent('previous')]
  expect([current?.fileId === fileId, previous?.fileId]).toEqual([false, fileId])
  expect(await earlierFilesOf(folder, 'team.chat')).toEqual(['team.chat.log', 'team.chat'])

  await servers.stop('team/chat')
  room.start({ loadMs: 0 }, {}, 'team/chat')
  await eventually(async () => (await earlierFilesOf(folder, 'team.chat')).length === 0)
  await eventually(async () => (await output.extent('previous'))?.fileId === current?.fileId)
  expect(await earlierFilesOf(folder, 'team.swapped')).toHaveLength(3)
})
