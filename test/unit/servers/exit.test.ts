import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { performance } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../support/eventually.ts'
import { livingPids, platform, ServerRoom } from './server-room.ts'

test('a kill from outside is told within 200 ms, with its signal', async () => {
  await using room = await ServerRoom.create()
  room.start()
  const { pid } = await room.reached('ready')
  expect(room.servers.runningRuntimeOf('a/b')).toBe('llama-server')
  const told = new Promise<number>((resolve) => {
    room.servers.onChange((_, state) => state.kind === 'exited' && resolve(performance.now()))
  })
  const killedAt = performance.now()
  process.kill(pid, 'SIGKILL')
  expect((await told) - killedAt).toBeLessThan(200)
  expect(await room.settled()).toMatchObject({
    cause: 'itself',
    outOf: 'serving',
    code: null,
    signal: 'SIGKILL',
    failures: 1,
  })
  expect(room.servers.runningRuntimeOf('a/b')).toBeUndefined()
})

test.each([
  [
    { crash: { message: 'ggml_metal: error: out of memory', exitCode: 1 } },
    { code: 1, signal: null, firstError: 'ggml_metal: error: out of memory' },
  ],
  [{ crash: { message: 'segfault to come', signal: 'SIGSEGV' as const } }, { code: null, signal: 'SIGSEGV' }],
  [
    { crash: { message: 'all done', exitCode: 0 } },
    { code: 0, signal: null, message: 'sample-server.cjs exited with code 0 while it was serving.' },
  ],
])('an end while serving is told with what is known (%j)', async (script, expected) => {
  await using room = await ServerRoom.create()
  room.start({ ...script, crashAfterRequests: 1 })
  const { port } = await room.reached('ready')
  await fetch(`http://127.0.0.1:${port}/completion`, { method: 'POST', body: '{"n_predict":1}' }).catch(() => undefined)
  expect(await room.settled()).toMatchObject({ cause: 'itself', outOf: 'serving', ...expected })
})

test('a server that ends soon after it was ready, twice, has failed twice, and may start again at once after the first', async () => {
  await using room = await ServerRoom.create()
  const failures: number[] = []
  const waits: boolean[] = []
  for (let run = 0; run < 2; run++) {
    const from = room.changes.length
    room.start()
    process.kill((await room.reached('ready', { from })).pid, 'SIGKILL')
    failures.push((await room.reached('exited', { from, where: ({ settled }) => settled })).failures)
    waits.push((room.servers.backOff('a/b')?.retryAt ?? Infinity) > Date.now())
  }
  expect([failures, waits]).toEqual([
    [1, 2],
    [false, true],
  ])
})

test('a grandchild that outlives its parent is ended with it, and the port is free again', async () => {
  await using room = await ServerRoom.create()
  room.start({ grandchild: { ignoreSigterm: true } })
  const { pid, port } = await room.reached('ready')
  expect(await livingPids(pid)).toHaveLength(2)
  process.kill(pid, 'SIGKILL')
  const exited = await room.settled()
  expect(exited).not.toHaveProperty('left')
  expect([await livingPids(pid), await platform.portListeners(port, pid)]).toEqual([[], { ours: [], others: [] }])
})

test('nothing can be started in its place before the rest of it is gone', async () => {
  await using room = await ServerRoom.create()
  room.start({ grandchild: { ignoreSigterm: true } })
  const { pid } = await room.reached('ready')
  const refusals: unknown[] = []
  room.servers.onChange((_, state) => {
    if (state.kind !== 'exited' || state.settled) return
    try {
      room.start()
    } catch (error) {
      refusals.push(error)
    }
  })
  process.kill(pid, 'SIGKILL')
  await room.settled()
  expect(refusals).toEqual([new Error('a/b still has a server (exited): stop it and wait until it is over.')])
})

test('noise does no harm: 200 readable lines are kept, and the rest stays in the file', async () => {
  await using room = await ServerRoom.create()
  room.start({
    noise: { lines: 400, lineBytes: 5_000, binary: true },
    crashAfterMs: 400,
    crash: { message: 'error: enough' },
  })
  const { tail, firstError } = await room.settled()
  expect({
    last: tail.at(-1),
    lines: tail.length <= 200,
    short: tail.every((line) => line.length <= 301),
    firstError,
  }).toEqual({
    last: 'error: enough',
    lines: true,
    short: true,
    firstError: 'error: enough',
  })
  expect(tail.join('')).toBe(stripVTControlCharacters(tail.join('').replaceAll('\0', '')))
  expect((await readFile(room.files().logFile)).length).toBeGreaterThan(2_000_000)
})

test('lines of a megabyte are cut', async () => {
  await using room = await ServerRoom.create()
  room.start({ noise: { lines: 3, lineBytes: 1_000_000 }, crashAfterMs: 300, crash: { message: 'error: enough' } })
  expect((await room.settled()).firstError).toBe('error: enough')
})

test('a listener that fails stops neither the others nor the server', async () => {
  await using room = await ServerRoom.create()
  room.servers.onChange(() => {
    throw new Error('a listener of ours has a bug')
  })
  const seen: string[] = []
  const off = room.servers.onChange((_, state) => seen.push(state.kind))
  room.start()
  await room.reached('ready')
  off()
  await room.servers.stop('a/b')
  expect(seen).toEqual(['starting', 'starting', 'ready'])
})

describe('servers outlive the agent', () => {
  test.each(['killed', 'ending by itself'])('%s', async (how) => {
    await using room = await ServerRoom.create()
    const script = fileURLToPath(new URL('agent-that-ends.ts', import.meta.url))
    const agent = spawn(process.execPath, [script, room.folder], { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(agent, 'exit')
    const [line] = (await once(agent.stdout, 'data')) as [Buffer]
    const { pid, logFile } = z.object({ pid: z.number(), logFile: z.string() }).parse(JSON.parse(line.toString()))
    try {
      if (how === 'killed') agent.kill('SIGKILL')
      expect(await ended).toEqual(how === 'killed' ? [null, 'SIGKILL'] : [0, null])
      const before = (await readFile(logFile)).length
      await eventually(async () => (await readFile(logFile)).length > before)
      expect((await platform.process(pid))?.groupId).toBe(pid)
    } finally {
      process.kill(-pid, 'SIGKILL')
    }
  })
})
