import { access, lstat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import { hostPlatform } from '../agent-core/platform/host.ts'
import { socketPathFor, StrangeSocketError } from '../agent-core/state/socket-path.ts'
import { isSelfContained } from '../agent-core/util/embedded.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { LinkError } from '../contract/client.ts'
import { formatBytes } from '../contract/format.ts'
import { shellCommand } from '../contract/shell.ts'
import type { Removal, Trace, TraceKind, TraceList } from '../contract/uninstall.ts'
import { InstallationError, type InstallationHost } from '../installation/installation-host.ts'
import { bytesOfTrace, insideAnApp, listTraces, UninstallError } from '../installation/uninstall/traces.ts'
import {
  allParts,
  endAgent as end,
  removeChosen,
  servedModels,
  type StatedPlaces,
} from '../installation/uninstall/uninstall.ts'
import { probeSocket } from '../serve/frames.ts'
import { connect, type AgentSessionOptions } from './agent-session.ts'
import { exitCodes, type CliIo } from './io.ts'
import { runInTerminal } from './power-rule.ts'
import { serviceHost, workOf } from './service/service-host.ts'

export interface EverythingOptions {
  readonly stateDir: string
  /** By the one who runs it. */
  readonly stated: StatedPlaces
  readonly yes: boolean
  readonly dryRun: boolean
  readonly json: boolean
  /** Chosen beside what is by itself, and not chosen although it would be. */
  readonly also: readonly TraceKind[]
  readonly keep: readonly TraceKind[]
}

/** Removes everything that Metalbar ever wrote, as far as the one who runs it says so. Answers the exit code. */
export async function uninstallEverything(io: CliIo, options: EverythingOptions): Promise<number> {
  try {
    return await uninstall(io, options)
  } catch (error) {
    if (![UninstallError, InstallationError, LinkError].some((known) => error instanceof known)) throw error
    io.stderr.write(`metal-agent: ${messageOf(error)}\n`)
    return exitCodes.failed
  }
}

async function uninstall(io: CliIo, options: EverythingOptions): Promise<number> {
  const { stateDir, stated, yes, dryRun, json, also, keep } = options
  const host = await uninstallHost(io, stateDir)
  const session = { io, stateDir }
  const running = await findAgent(session)
  const serving = running ?? []
  const platform = hostPlatform(host.platform)
  const parts = await allParts({
    host,
    stateDir,
    platform,
    temporaryDir: io.temporaryDir,
    stated,
    tell: workOf(io).tell,
    asRoot: (words) => runInTerminal('/usr/bin/sudo', words, io, ''),
  })
  const list: TraceList = { traces: await listTraces(parts), serving }
  const usual = list.traces.filter(({ isChosen }) => isChosen).map(({ kind }) => kind)
  const chosen = new Set([...usual, ...also].filter((kind) => !keep.includes(kind)))
  if (list.traces.length === 0) {
    io.stdout.write(json ? `${JSON.stringify({ ...list, chosen: [] })}\n` : 'There is nothing of Metalbar here.\n')
    return exitCodes.done
  }
  if (dryRun) {
    io.stdout.write(json ? `${JSON.stringify({ ...list, chosen: [...chosen] })}\n` : overview(list, chosen))
    return exitCodes.done
  }
  const wanted = yes ? chosen : await choice(io, list, chosen)
  if (wanted === undefined) return exitCodes.refused
  if (running) {
    io.stderr.write('The agent lets requests finish, stops its servers and ends …\n')
    await endAgent(session)
  }
  const onStep = (what: string) => void io.stderr.write(`${what} …\n`)
  const removals = await removeChosen(parts, { stateDir, platform, chosen: wanted, onStep })
  io.stdout.write(json ? `${JSON.stringify({ removals })}\n` : removalText(removals))
  if (!json) for (const line of await whatIsLeftToDo(io)) io.stdout.write(`${line}\n`)
  return removals.every(({ isGone }) => isGone) ? exitCodes.done : exitCodes.failed
}

const overview = (list: TraceList, chosen: ReadonlySet<TraceKind>): string =>
  `${list.serving.length === 0 ? '' : `${servingText(list.serving)}\n`}${listText(list, chosen)}`

/** Undefined where the person does not want it after all, or nobody can be asked. */
async function choice(
  io: CliIo,
  list: TraceList,
  first: ReadonlySet<TraceKind>,
): Promise<ReadonlySet<TraceKind> | undefined> {
  const { ask } = io
  if (ask === undefined) {
    io.stdout.write(overview(list, first))
    const ends = list.serving.length === 0 ? '' : ', which stops these models cleanly'
    io.stderr.write(`metal-agent: Nothing was removed: run it again with --yes${ends}.\n`)
    return undefined
  }
  const chosen = new Set(first)
  for (;;) {
    io.stdout.write(overview(list, chosen))
    const answer = await ask('\nType numbers to change ticks, "remove" to remove what is ticked, or Return to quit: ')
    const words = (answer ?? '')
      .trim()
      .split(/[\s,]+/)
      .filter(Boolean)
    if (words.length === 0) {
      io.stderr.write('metal-agent: Nothing was removed.\n')
      return undefined
    }
    if (words.join(' ') === 'remove') return chosen
    for (const word of words) {
      const kind = list.traces[Number(word) - 1]?.kind
      if (kind === undefined) io.stderr.write(`metal-agent: ${JSON.stringify(word)} is not a number in the list.\n`)
      else if (!chosen.delete(kind)) chosen.add(kind)
    }
  }
}

/** So many places of a kind are named; `--json` has them all. */
const mostPlaces = 6

/** Everything that is there, with a tick where it is to be removed. */
function listText({ traces }: TraceList, chosen: ReadonlySet<TraceKind>): string {
  const width = String(traces.length).length
  return traces
    .map((trace, index) => {
      const bytes = bytesOfTrace(trace)
      const size = bytes === 0 ? '' : `  ${formatBytes(bytes)}`
      const head = `[${chosen.has(trace.kind) ? 'x' : ' '}] ${String(index + 1).padStart(width)}  ${trace.what}${size}`
      return [head, ...detailsOf(trace).map((line) => `${' '.repeat(6 + width)}${line}`)].join('\n')
    })
    .map((text) => `${text}\n`)
    .join('')
}

function detailsOf({ places, stays, problem }: Trace): string[] {
  const shown = places.slice(0, mostPlaces).map(({ path }) => path)
  const more = places.length - shown.length
  return [
    ...shown,
    ...(more > 0 ? [`and ${more} more`] : []),
    ...stays.map((sentence) => `Stays: ${sentence}`),
    ...(problem === undefined ? [] : [`Not known: ${problem}`]),
  ]
}

export const servingText = (serving: readonly string[]): string =>
  `${serving.length === 1 ? 'One model serves' : `${serving.length} models serve`}: ${serving.join(', ')}.`

/** What became of each, and by which lines a person does the rest. */
function removalText(removals: readonly Removal[]): string {
  const lines = removals.flatMap(({ what, isGone, message, byHand }) => [
    `${isGone ? 'done' : 'LEFT'}  ${what}: ${message}`,
    ...byHand.map((line) => `      by hand: ${line}`),
  ])
  return lines.map((line) => `${line}\n`).join('')
}

/** For whom it is, and on what: always the one who runs it. Throws UninstallError. */
async function uninstallHost(io: CliIo, stateDir: string): Promise<InstallationHost> {
  const { platform, env, homeDir } = io
  if (platform !== 'darwin' && platform !== 'linux') {
    throw new UninstallError(`Metalbar runs on macOS and Linux, and leaves nothing on ${platform}.`)
  }
  const { uid } = userInfo()
  const sudoer = env['SUDO_USER']
  if (uid === 0 && sudoer !== undefined && sudoer !== 'root') {
    throw new UninstallError(
      `This removes what belongs to the user who runs it: run it again as ${sudoer}, without sudo. It asks for a password where that is needed.`,
    )
  }
  if (!path.isAbsolute(homeDir)) {
    throw new UninstallError(
      'HOME names no folder, so it is not known which files are yours: set HOME, and run this again.',
    )
  }
  const owner = await lstat(stateDir).then(
    (found) => found.uid,
    () => uid,
  )
  if (owner !== uid) {
    throw new UninstallError(
      `The state folder ${stateDir} belongs to another user (${owner}), whose agent it is: have them run this, or sudo -u '#${owner}' metal-agent uninstall --everything.`,
    )
  }
  return serviceHost(io)
}

/** The models of the agent or app that has the state folder; undefined where none runs. Throws UninstallError where one runs that does not say what it does. */
async function findAgent(session: AgentSessionOptions): Promise<readonly string[] | undefined> {
  try {
    await using agent = await connect(session)
    return await servedModels(agent)
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    // No agent of ours listens there; one that runs all the same has the lock, which is asked for before anything is removed.
    if (error.cause instanceof StrangeSocketError) return undefined
    if (error.code === 'gone' && !(await listens(session))) return undefined
    throw new UninstallError(`${error.message} Nothing was removed: end that agent first.`, { cause: error })
  }
}

const listens = ({ io, stateDir }: AgentSessionOptions): Promise<boolean> =>
  probeSocket(socketPathFor(stateDir, io.temporaryDir), stateDir)

/** Has it withdraw, let requests finish, stop its servers and end. Throws LinkError. */
const endAgent = (session: AgentSessionOptions): Promise<void> =>
  end(
    async () => {
      await using agent = await connect(session)
      return await agent.command({ name: 'shutdown' })
    },
    () => listens(session),
  )

/** What a program cannot remove of itself, each as a sentence or line. */
async function whatIsLeftToDo({ platform, homeDir }: CliIo): Promise<string[]> {
  const apps = platform === 'darwin' ? ['/Applications', path.join(homeDir, 'Applications')] : []
  const found = apps.map(async (folder) => {
    const app = path.join(folder, 'Metalbar.app')
    return await access(app).then(
      () => [`Move ${app} to the Trash; macOS then no longer opens anything of it at login.`],
      () => [],
    )
  })
  return [...(await Promise.all(found)).flat(), ...ownCommand()]
}

function ownCommand(): string[] {
  const script = process.argv[1] ?? ''
  if (isSelfContained()) {
    return insideAnApp.test(process.execPath) ? [] : [`The command itself: ${shellCommand(['rm', process.execPath])}`]
  }
  return /\/node_modules\/metalbar\//.test(script) ? ['The command itself: npm uninstall --global metalbar'] : []
}
