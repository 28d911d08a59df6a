import { readFile } from 'node:fs/promises'
import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { livingPids, platform, ServerRoom } from './server-room.ts'

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
