import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { CommandInput } from '../src/contract/commands.ts'
import type { AgentProcess } from './agent-process.ts'
import { cpuShares } from './proc.ts'
import type { Group } from './row.ts'
import { changeOnce, repeat, startServing } from './serving-site.ts'
import { statisticsOf } from './statistics.ts'
import type { Site } from './world.ts'

const services = Array.from({ length: 10 }, (_, index) => `idle-${index}`)
/** Somewhat more often than the agent pushes, so that every push has something to tell. */
const changeMs = 200
const clients = 5
/** Of so many the agent's CPU is told from its noise; 32 may be connected. */
const measuredClients = 30
const fanOutSeconds = 15
const unaskedSeconds = 10
/** Between two of what the agent is busy with for a moment after it has answered. */
const calmMs = 100
const resyncIsSlow = 'it is answered while the agent begins to list and compare everything'

/** The cost of requests and of followed snapshots on the socket, with 10 idle services. */
export const carriers: Group = {
  name: 'carriers',
  measure: async (world, { commandCalls, fanOutRuns }) => {
    // Without LLMKube's controller, so that one change is one event.
    await using site = await world.openSite({ controller: false })
    await using agent = await startServing(site, services)
    const commands = await roundTrips(agent, { name: 'resumeNode' }, commandCalls)
    const fanOut = await measureFanOut(site, agent, fanOutRuns)
    const unasked = await readUnasked(site, agent)
    const calmResyncs = await roundTrips(agent, { name: 'resync' }, commandCalls, calmMs)
    const resyncs = await roundTrips(agent, { name: 'resync' }, commandCalls)
    return [
      { what: 'command on the socket', unit: 'ms', values: commands, goal: 5, note: rareOf(commands) },
      {
        what: 'resync on the socket, 10 a second',
        unit: 'ms',
        values: calmResyncs,
        goal: 5,
        note: rareOf(calmResyncs),
        missedBecause: resyncIsSlow,
      },
      {
        what: 'resync on the socket, without a pause',
        unit: 'ms',
        values: resyncs,
        goal: 5,
        note: rareOf(resyncs),
        missedBecause: resyncIsSlow,
      },
      {
        what: `CPU, snapshots to ${clients} clients`,
        unit: '%',
        values: fanOut.added.map((share) => (share * clients) / measuredClients),
        goal: 0.5,
        note: `of ${measuredClients} clients, each told ${fanOut.pushesPerSecond.toFixed(2)} times a second, which add ${sharesOf(fanOut.added)} to the ${sharesOf(fanOut.alone)} of the same changes without a client`,
      },
      {
        what: 'bytes to a client that asked for nothing',
        unit: '',
        values: [unasked.bytes],
        goal: 0,
        note: `in ${unaskedSeconds} s, in which the snapshot changed ${unasked.changes} times`,
      },
    ]
  },
}

/** In milliseconds, one after the other on one connection. */
async function roundTrips(agent: AgentProcess, command: CommandInput, calls: number, pauseMs = 0): Promise<number[]> {
  await using client = await agent.connect()
  const values: number[] = []
  while (values.length < calls) {
    const askedAt = performance.now()
    const { outcome, message } = await client.command(command)
    values.push(performance.now() - askedAt)
    if (outcome !== 'done' && outcome !== 'accepted') throw new Error(`${command.name}: ${message}`)
    if (pauseMs > 0) await delay(pauseMs)
  }
  return values
}

function rareOf(values: readonly number[]): string {
  const slowest = values.toSorted((a, b) => b - a)
  return `99 of 100 within ${slowest[Math.floor(values.length / 100)]?.toFixed(2) ?? '?'} ms`
}

const sharesOf = (shares: readonly number[]): string => {
  const { median, min, max } = statisticsOf(shares)
  return `${median.toFixed(2)} % (${min.toFixed(2)} – ${max.toFixed(2)})`
}

interface FanOut {
  /** CPU of the agent without a client, in percent of one core: before, between and after the runs. */
  readonly alone: readonly number[]
  /** What the clients added in each run, against the mean of before and after it. */
  readonly added: readonly number[]
  /** To each of them. */
  readonly pushesPerSecond: number
}

async function measureFanOut(site: Site, agent: AgentProcess, runs: number): Promise<FanOut> {
  let before = await cpuWhileChanging(site, agent)
  const alone = [before]
  const added: number[] = []
  let pushes = 0
  while (added.length < runs) {
    const followed = await cpuWhileFollowed(site, agent)
    const after = await cpuWhileChanging(site, agent)
    added.push(followed.cpu - (before + after) / 2)
    pushes += followed.pushes
    alone.push(after)
    before = after
  }
  return { alone, added, pushesPerSecond: pushes / runs / measuredClients / fanOutSeconds }
}

async function cpuWhileFollowed(site: Site, agent: AgentProcess): Promise<{ cpu: number; pushes: number }> {
  await using following = new AsyncDisposableStack()
  const ended = Promise.withResolvers<never>()
  let pushes = 0
  for (let index = 0; index < measuredClients; index += 1) {
    const client = following.use(await agent.connect())
    following.defer(client.follow({ next: () => (pushes += 1), end: (error) => ended.reject(error) }))
  }
  const cpu = await Promise.race([cpuWhileChanging(site, agent), ended.promise])
  return { cpu, pushes }
}

async function cpuWhileChanging(site: Site, { pid }: AgentProcess): Promise<number> {
  const [shares] = await Promise.all([
    cpuShares(pid, fanOutSeconds),
    repeat(() => changeOnce(site), changeMs, fanOutSeconds),
  ])
  return statisticsOf(shares).median
}

async function readUnasked(site: Site, agent: AgentProcess): Promise<{ bytes: number; changes: number }> {
  const before = await agent.snapshot()
  using opened = new DisposableStack()
  const socket = connect(agent.socketPath)
  opened.defer(() => socket.destroy())
  await once(socket, 'data')
  socket.resume()
  const helloBytes = socket.bytesRead
  await repeat(() => changeOnce(site), changeMs, unaskedSeconds)
  const bytes = socket.bytesRead - helloBytes
  const after = await agent.snapshot()
  return { bytes, changes: after.revision - before.revision }
}
