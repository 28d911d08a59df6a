import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { isWorkUnderWay, LatelyWorking } from '../../../src/agent-core/power/stay-awake.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import type { CountedServer } from '../../../src/agent-core/servers/service-server.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'

/** A server that counts nothing: it computes for as long as a client that has sent something is connected. */
const script = `
  const server = require('node:net').createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      const work = setInterval(() => { const until = Date.now() + 20; while (Date.now() < until); }, 40)
      socket.on('close', () => clearInterval(work))
    })
  })
  server.listen(Number(process.argv[1]), '127.0.0.1', () => console.log('listening'))
`

test('a real server with an idle connection is not at work, with one that it computes for it is, and without any it is not', async () => {
  const port = await freePort()
  const child = spawn(process.execPath, ['-e', script, String(port)], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await using parts = new AsyncDisposableStack()
  parts.defer(() => void child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  const platform = hostPlatform()
  const working = new LatelyWorking((groupId) => platform.processGroup(groupId))
  const { pid = 0 } = child
  const server: CountedServer = {
    ...{ key: 'a/b', run: 'run', pid, port, digest: 'd' },
    ...{ sleepsWhenIdle: true, isFound: false, isWell: true },
    look: async () => ({
      answer: 'notAsked',
      requests: await platform.establishedConnections(port),
      work: undefined,
      idleForMs: 0,
    }),
  }
  const isAtWork = () =>
    isWorkUnderWay({
      servers: { state: () => new Map(), counted: () => [server] },
      working,
      freshMs: 0,
    })
  const client = connect(port, '127.0.0.1')
  parts.defer(() => void client.destroy())
  await once(client, 'connect')
  await eventually(async () => !(await isAtWork()), { what: 'the end of what its start takes' })
  client.write('compute')
  const busy = await eventually(isAtWork, { what: 'the work' })
  client.destroy()
  await once(client, 'close')
  expect([busy, await isAtWork()]).toEqual([true, false])
})

test('one that computes is at work at the first look, and one that has stopped is not', async () => {
  const began = performance.now()
  const process = { pid: 1, groupId: 1, startTime: '', commandLine: '', suspended: false }
  const working = new LatelyWorking((groupId) =>
    Promise.resolve([{ ...process, cpuMs: groupId === 1 ? performance.now() - began : 5_000 }]),
  )
  expect(await working.has({ run: 'computes', pid: 1 })).toBe(true)
  expect(await working.has({ run: 'has computed', pid: 2 })).toBe(false)
})

test.each<[what: string, state: ServerState, isWork: boolean]>([
  ['starts', { kind: 'starting', since: 0 }, true],
  ['was found running and has not been asked', { kind: 'starting', since: 0, unasked: true }, false],
  ['loads', { kind: 'loading', since: 0, pid: 1, port: 1 }, true],
  [
    'finishes its requests',
    { kind: 'stopping', since: 0, cause: 'stopped', drain: { requestsInFlight: 1, endsAt: 0 } },
    true,
  ],
  ['ends without any', { kind: 'stopping', since: 0, cause: 'stopped' }, false],
])('whether a server that %s is work under way', async (_, state, isWork) => {
  const isUnderWay = await isWorkUnderWay({
    servers: { state: () => new Map([['a/b', state]]), counted: () => [] },
    working: new LatelyWorking(() => Promise.resolve([])),
    freshMs: 0,
  })
  expect(isUnderWay).toBe(isWork)
})

test('what worked counts for ten seconds more, as the GPU may still compute; of a run that is over nothing is kept', async () => {
  let cpuMs = 0
  let at = 0
  const process = { pid: 1, groupId: 1, startTime: '', commandLine: '', suspended: false }
  const working = new LatelyWorking(
    () => Promise.resolve([{ ...process, cpuMs }]),
    () => at,
  )
  const has = (afterMs: number, usedMs: number) => {
    at += afterMs
    cpuMs += usedMs
    return working.has({ run: 'run', pid: 1 })
  }
  await has(0, 0)
  const worked = [await has(2_000, 500), await has(4_000, 0), await has(4_000, 0), await has(4_000, 0)]
  await has(2_000, 500)
  working.keepOnly(new Set())
  expect([worked, await has(1_000, 0)]).toEqual([[true, true, true, false], false])
})
