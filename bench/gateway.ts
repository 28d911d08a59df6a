import { spawn, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Gateway, nodeOptionsOfGateway, ofOneFile, type GatewayCommand } from '../src/agent-core/gateway/gateway.ts'
import { relayIdentity } from '../src/agent-core/gateway/relay-identity.ts'
import { ingressHost, type GatewayRoute, type RelayIngressTold } from '../src/contract/gateway.ts'
import { eventually } from '../test/support/eventually.ts'
import { freePort } from '../test/support/free-port.ts'
import { silentLog } from '../test/support/silent-log.ts'
import { cpuShares, memoryOf, threadSeconds } from './proc.ts'
import type { Group, Row } from './row.ts'
import { statisticsOf } from './statistics.ts'
import { packageVersion } from '../tasks/build-info.ts'

const batches = 9
const requestsPerBatch = 300
const streams = 50
const tokens = 100
/** 100 tokens a second in each stream, of which no engine on a Mac sends 50 at once. */
const everyMs = 10
const idleParts = 3
/** Each of a gateway that has just started: one that ends again soon after is started again later. */
const kills = 5

/** One way to the engine. */
interface Way extends AsyncDisposable {
  readonly name: string
  readonly port: number
  /** Where it is the door for relays, which is TLS: what they show. */
  readonly relay?: Readonly<Record<string, string>>
  /** Absent where it is the engine itself. */
  readonly pid?: number
}

interface Round {
  /** Of requests one after the other on one connection. */
  readonly requestMs: number
  /** Of a stream that has the machine to itself. */
  readonly aloneMs: number
  readonly firstByteMs: number
  readonly streamsMs: number
  /** Answers that came to no end. */
  readonly broken: number
}

interface GatewayWay extends Way {
  readonly pid: number
  readonly command: Awaited<ReturnType<GatewayCommand>>
  /** Called from now on when the agent knows something new of it. */
  onChange(tell: () => void): void
}

/** What the gateway adds to an engine that answers at once; in turns, so that all have the same load. */
export const gateway: Group = {
  name: 'gateway',
  measure: async (world, { emptySeconds }) => {
    await using stack = new AsyncDisposableStack()
    const engine = stack.use(
      await startChild('direct', process.execPath, [path.join(import.meta.dirname, 'gateway-engine.ts')]),
    )
    const byNode = stack.use(
      await startGateway('gateway', engine.port, [process.execPath, ...nodeOptionsOfGateway, world.bundle]),
    )
    const oneFile = stack.use(
      await startGateway('gateway as one file', engine.port, ofOneFile(await world.buildSelfContained())),
    )
    const forRelays = stack.use(
      await startGateway(
        'gateway, for relays',
        engine.port,
        [process.execPath, ...nodeOptionsOfGateway, world.bundle],
        {
          isForRelays: true,
        },
      ),
    )
    const ways = [byNode, oneFile, forRelays]
    const measured = new Map<Way, Round[]>([engine, ...ways].map((way) => [way, []]))
    for (let batch = -1; batch < batches; batch += 1) {
      for (const [way, rounds] of measured) {
        const round = await measureOnce(way)
        // The first one is compiled for.
        if (batch >= 0) rounds.push(round)
      }
    }
    const rows: Row[] = []
    for (const way of ways)
      rows.push(...(await rowsOf(way, measured.get(way) ?? [], measured.get(engine) ?? [], emptySeconds)))
    for (const one of [byNode, oneFile]) rows.push(...(await comebacks(one, engine.port)))
    return rows
  },
}

async function rowsOf(
  way: Way,
  rounds: readonly Round[],
  direct: readonly Round[],
  idleSeconds: number,
): Promise<Row[]> {
  const added = (of: (round: Round) => number): number[] =>
    rounds.map((round, index) => of(round) - of(direct[index] ?? round))
  const pid = way.pid ?? 0
  const broken = rounds.reduce((sum, round) => sum + round.broken, 0)
  if (broken > 0) throw new Error(`${broken} streams through the ${way.name} broke off.`)
  const resident = memoryOf(pid).residentMiB
  const cpu = await cpuShares(pid, idleSeconds, idleParts, threadSeconds)
  const median = (of: (round: Round) => number): string => statisticsOf(direct.map(of)).median.toFixed(2)
  return [
    {
      what: `${way.name}: added to a request`,
      ...{ unit: 'ms', values: added(({ requestMs }) => requestMs) },
      goal: way.relay ? 0.3 : 0.25,
      note: `median of ${requestsPerBatch} on one connection; ${median(({ requestMs }) => requestMs)} ms directly`,
    },
    {
      what: `${way.name}: added to the first byte of a stream`,
      ...{ unit: 'ms', values: added(({ aloneMs }) => aloneMs) },
      note: `median of ${streams} one after the other`,
    },
    {
      what: `${way.name}: added to the first byte of ${streams} streams`,
      ...{ unit: 'ms', values: added(({ firstByteMs }) => firstByteMs) },
      note: `${median(({ firstByteMs }) => firstByteMs)} ms directly`,
    },
    {
      what: `${way.name}: added to the time of ${streams} streams`,
      unit: '%',
      values: rounds.map(({ streamsMs }, index) => 100 * (streamsMs / (direct[index]?.streamsMs ?? streamsMs) - 1)),
      goal: 5,
      note: `${tokens} tokens in each, one every ${everyMs} ms`,
    },
    { what: `${way.name}: resident memory`, unit: 'MiB', values: [resident], goal: 70 },
    { what: `${way.name}: CPU while nothing asks`, unit: '%', values: cpu, goal: 0.05 },
  ]
}

/** How soon the agent notices a gateway that was killed, and how soon another one forwards requests. */
async function comebacks({ name, command }: GatewayWay, enginePort: number): Promise<Row[]> {
  const noticed: number[] = []
  const back: number[] = []
  for (let run = 0; run < kills; run += 1) {
    await using way = await startGateway(name, enginePort, command)
    await isAnswered(way)
    const changed = Promise.withResolvers<number>()
    way.onChange(() => changed.resolve(performance.now()))
    const began = performance.now()
    process.kill(way.pid, 'SIGKILL')
    noticed.push((await changed.promise) - began)
    while (!(await isAnswered(way))) await delay(5)
    back.push(performance.now() - began)
  }
  return [
    { what: `${name}: noticed after it was killed`, unit: 'ms', values: noticed, goal: 100 },
    { what: `${name}: back after it was killed`, unit: 'ms', values: back, goal: 500 },
  ]
}

const isAnswered = (way: Way): Promise<boolean> =>
  ask(agentFor(way), way, { stream: false }).then(
    ({ isWhole }) => isWhole,
    () => false,
  )

/** Its connections are kept alive, as those of a relay are. */
const agentFor = ({ relay }: Way): Agent =>
  relay
    ? new TlsAgent({ keepAlive: true, maxSockets: streams, rejectUnauthorized: false })
    : new Agent({ keepAlive: true, maxSockets: streams })

async function measureOnce(way: Way): Promise<Round> {
  const agent = agentFor(way)
  const times: number[] = []
  for (let asked = 0; asked < requestsPerBatch; asked += 1) times.push((await ask(agent, way, { stream: false })).allMs)
  const alone: number[] = []
  for (let asked = 0; asked < streams; asked += 1)
    alone.push((await ask(agent, way, { stream: true, tokens: 1, everyMs })).firstByteMs)
  const began = performance.now()
  const body = { stream: true, tokens, everyMs }
  const answers = await Promise.all(Array.from({ length: streams }, () => ask(agent, way, body)))
  const streamsMs = performance.now() - began
  agent.destroy()
  return {
    requestMs: statisticsOf(times).median,
    aloneMs: statisticsOf(alone).median,
    firstByteMs: statisticsOf(answers.map(({ firstByteMs }) => firstByteMs)).median,
    streamsMs,
    broken: answers.filter(({ isWhole }) => !isWhole).length,
  }
}

function ask(
  agent: Agent,
  { port, relay }: Pick<Way, 'port' | 'relay'>,
  fields: object,
): Promise<{ firstByteMs: number; allMs: number; isWhole: boolean }> {
  const body = JSON.stringify({ model: 'engine', messages: [{ role: 'user', content: 'Hello' }], ...fields })
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...relay }
  const requestBy = relay ? tlsRequest : request
  return new Promise((resolve, reject) => {
    const began = performance.now()
    let firstByteMs = 0
    const where = { host: '127.0.0.1', port, path: '/v1/chat/completions' }
    const sent = requestBy({ agent, ...where, method: 'POST', headers })
    sent.once('error', reject)
    sent.once('response', (answer) => {
      answer.on('error', () => undefined)
      answer.once('data', () => (firstByteMs = performance.now() - began))
      answer.on('data', () => undefined)
      answer.once('close', () => resolve({ firstByteMs, allMs: performance.now() - began, isWhole: answer.complete }))
    })
    sent.end(body)
  })
}

/** A program that says its port on its first line. It has a session of its own, as the gateway: Linux shares a busy processor by session. */
async function startChild(name: string, program: string, args: readonly string[]): Promise<Way> {
  const child: ChildProcess = spawn(program, args, {
    ...{ stdio: ['ignore', 'pipe', 'inherit'], detached: true },
  })
  const [line] = (await once(child.stdout ?? child, 'data')) as [Buffer]
  return {
    ...{ name, port: Number(line.toString()), pid: child.pid ?? 0 },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

async function startGateway(
  name: string,
  enginePort: number,
  command: Awaited<ReturnType<GatewayCommand>>,
  { isForRelays = false } = {},
): Promise<GatewayWay> {
  await using opening = new AsyncDisposableStack()
  const folder = await mkdtemp(path.join(tmpdir(), 'metalbar-gateway-'))
  opening.defer(() => rm(folder, { recursive: true, force: true }))
  const port = await freePort()
  const access = { servicePorts: [80], key: 'none' as const }
  const route: GatewayRoute = {
    ...{ namespace: 'default', name: 'engine', runtime: 'llama-server', names: [], port: enginePort },
    ...(isForRelays && { relay: { is: 'alone', isHealthy: true }, published: { access } }),
  }
  const ingress = isForRelays ? { port: await freePort(), told: await ingressIn(folder) } : undefined
  let tell = (): void => undefined
  const room = new Gateway({
    ...{ port, stateDir: folder, socketPath: path.join(folder, 'gateway.sock'), log: silentLog },
    ...{
      routes: () => [route],
      command: () => Promise.resolve(command),
      onChange: () => tell(),
      onDoors: () => undefined,
      onKeys: () => undefined,
    },
    ...(ingress && {
      ingress: { host: ingressHost, port: ingress.port, told: { ...ingress.told, port: ingress.port } },
    }),
    ...{ version: packageVersion(), holders: () => Promise.resolve([]), commandLine: () => Promise.resolve(undefined) },
  })
  opening.defer(() => room.end())
  room.start()
  await eventually(() => room.url, { what: name })
  if (ingress) await eventually(() => room.door(ingressHost, ingress.port).kind === 'open', { what: 'the ingress' })
  const stack = opening.move()
  return {
    ...{ name, command, pid: room.pid ?? 0, onChange: (one: () => void) => void (tell = one) },
    ...(ingress
      ? { port: ingress.port, relay: { 'x-llmkube-target': 'default/engine', 'x-llmkube-relay-token': relayToken } }
      : { port }),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

/** As long as LLMKube's. */
const relayToken = 't'.repeat(64)

async function ingressIn(folder: string): Promise<Omit<RelayIngressTold, 'port'>> {
  const { certificate, key } = await relayIdentity(folder)
  return {
    ...{ certificate, key },
    tokens: [{ namespace: 'default', token: createHash('sha256').update(relayToken).digest('hex') }],
  }
}
