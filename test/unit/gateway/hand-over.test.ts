import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { connect, createServer, type AddressInfo, type Server } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { handOver } from '../../../src/gateway/hand-over.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let stack: AsyncDisposableStack
let folder: string
let servers: Server[]

beforeEach(async () => {
  stack = new AsyncDisposableStack()
  folder = stack.use(await temporaryFolder()).dir
  servers = await Promise.all([listen(), listen(), listen()])
})
afterEach(() => stack.disposeAsync())

/** It answers every connection with `still here`. */
async function listen(): Promise<Server> {
  const server = createServer((socket) => socket.end('still here'))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  stack.defer(() => void server.close())
  return server
}

const addressOf = (server: Server) => ({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })

/** A successor that writes down its pid and then does as the script says; its end, and how long that took. */
async function handedOverTo(script: string, limits: Parameters<typeof handOver>[2]) {
  const file = path.join(folder, 'successor.mjs')
  const pidFile = path.join(folder, 'pid')
  await writeFile(
    file,
    `import { writeFileSync } from 'node:fs'\nwriteFileSync('${pidFile}', String(process.pid))\n${script}`,
  )
  const began = performance.now()
  const [agents, ...listeners] = servers
  const estate = {
    listeners: listeners.map((server) => ({ address: addressOf(server), server })),
    agents,
    told: undefined,
  }
  const problem = await handOver([process.execPath, file], estate as typeof estate & { agents: Server }, limits).then(
    () => 'it was replaced',
    (error: unknown) => String(error),
  )
  return { problem, tookMs: performance.now() - began, pid: Number(await readFile(pidFile, 'utf8')) }
}

const lives = 'setInterval(() => undefined, 1_000)\n'
const quick = { readyMs: 15_000, servingMs: 300 }
const stops = `process.kill(process.pid, 'SIGSTOP')\n`

test.each([
  ['never says that it is ready', lives, { readyMs: 1_500, servingMs: 300 }, 1.5],
  ['stops before it takes anything', `process.send('ready')\n${stops}`, quick, 0.3],
  [
    'stops after the first handle',
    `${lives}process.once('message', () => { ${stops} })\nprocess.send('ready')\n`,
    quick,
    0.3,
  ],
  [
    'takes everything and never serves',
    `${lives}process.on('message', () => undefined)\nprocess.send('ready')\n`,
    quick,
    0.3,
  ],
])('a successor that %s is killed in time, and the gateway keeps everything', async (_what, script, limits, limit) => {
  const { problem, tookMs, pid } = await handedOverTo(script, limits)
  expect(problem).toBe(`Error: it did not answer within ${limit} s`)
  expect(tookMs).toBeGreaterThanOrEqual(limit * 990)
  await eventually(async () => (await hostPlatform().process(pid)) === undefined, { what: 'the end of the successor' })
  for (const server of servers) expect(await text(connect(addressOf(server)))).toBe('still here')
})
