import { stat } from 'node:fs/promises'
import path from 'node:path'
import {
  decideFit,
  estimator,
  type FitDecision,
  fitOf,
  type FoundModel,
  roomOf,
  type ServingWish,
} from '../agent-core/api/fit.ts'
import { resolveBudget, parseRecommendedWorkingSet } from '../agent-core/memory/budget.ts'
import { type Estimate, type MemoryItems, itemNames } from '../agent-core/memory/estimate/items.ts'
import { MlxFolderError, readMlxFolder } from '../agent-core/memory/estimate/mlx.ts'
import { countedOnce, type Shortage } from '../agent-core/memory/room.ts'
import { defaultModelStore } from '../agent-core/models/default-store.ts'
import { ModelError } from '../agent-core/models/errors.ts'
import { readGgufHeader } from '../agent-core/models/gguf/file-header.ts'
import { GgufError } from '../agent-core/models/gguf/gguf.ts'
import { lookAtServer, lookHere, projectorAt } from '../agent-core/models/look.ts'
import { defaultDownloadSettings } from '../agent-core/models/models.ts'
import { Remote } from '../agent-core/models/remote.ts'
import { parseModelSource } from '../agent-core/models/source.ts'
import { Store } from '../agent-core/models/store/store.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import { PlatformError, type Platform } from '../agent-core/platform/platform.ts'
import { Dialects } from '../agent-core/runtimes/dialect.ts'
import { findLlamaServer, listDevices, llamaServerRuntime } from '../agent-core/runtimes/llama-server.ts'
import { ProgramError } from '../agent-core/util/ask-program.ts'
import { refKey } from '../agent-core/util/object-key.ts'
import { cleanText } from '../contract/clean-text.ts'
import { LinkError } from '../contract/client.ts'
import { fitQuery } from '../contract/fit.ts'
import { formatBytes, formatCount } from '../contract/format.ts'
import type { SizingView } from '../contract/memory.ts'
import { inCatalogue } from '../contract/model-application.ts'
import type { AgentClient } from '../serve/client/agent-client.ts'
import { connect, VerbError, withAgent, type AgentSessionOptions } from './agent-session.ts'
import { exitCodes, usesUnicode, type CliIo } from './io.ts'

export interface FitOptions {
  readonly json: boolean
  /** Tokens. */
  readonly context?: number | undefined
  readonly slots?: number | undefined
  /** One cache type, or those of keys and values with a comma between. */
  readonly kv?: string | undefined
  /** A Secret of the cluster whose token opens the source. */
  readonly sourceSecret?: string | undefined
  readonly namespace?: string | undefined
  /** Absent = where the agent keeps models, or would. */
  readonly modelStore?: string | undefined
  readonly stateDir: string
}

/** Prints whether the model fits on this machine, beside what the agent runs; answers the exit code. Throws VerbError. */
export async function fit(given: string, options: FitOptions, io: CliIo): Promise<number> {
  const { sourceSecret, stateDir } = options
  if (sourceSecret !== undefined) {
    return withAgent({ io, stateDir }, async (agent) =>
      report(await fitByAgent({ ...options, source: given, sourceSecret }, agent), options, io),
    )
  }
  try {
    return report(await fitHere(given, options, io), options, io)
  } catch (error) {
    if (!isSaid(error)) throw error
    io.stderr.write(`metal-agent: ${cleanText(error.message)}\n`)
    return exitCodes.failed
  }
}

function report({ estimate, decision, ways, machine }: Sized, { json }: FitOptions, io: CliIo): number {
  const { holders } = machine
  const counted = new Set(countedOnce(holders))
  const answer: FitAnswer = {
    items: estimate.items,
    total: estimate.total,
    budget: machine.budgetBytes,
    available: machine.availableBytes,
    from: machine.from,
    held: holders.map((holder) => ({
      service: refKey(holder),
      bytes: counted.has(holder) ? holder.committedBytes : 0,
    })),
    promised: roomOf(machine).promisedBytes,
    fits: decision.kind === 'fits',
    ...(decision.kind === 'whenStopped' && { fitsWhenStopped: decision.stop.map(refKey) }),
    waysToFit: ways,
  }
  io.stdout.write(
    json
      ? `${JSON.stringify(answer, null, 2)}\n`
      : renderFit(answer, { estimate, decision, machine, unicode: usesUnicode(io) }),
  )
  return answer.fits ? exitCodes.done : exitCodes.doesNotFit
}

/** Errors whose message is a sentence for people. */
const isSaid = (error: unknown): error is Error =>
  [ModelError, GgufError, MlxFolderError, PlatformError, ProgramError, RangeError].some((kind) => error instanceof kind)

async function fitHere(given: string, options: FitOptions, io: CliIo): Promise<Sized> {
  const machine = await machineToFit({ io, stateDir: options.stateDir })
  const model = await findModel(given, {
    io,
    modelStore: options.modelStore ?? machine.modelStore,
    signal: new AbortController().signal,
  })
  const { llamaServer, metal } = machine
  const dialect =
    llamaServer === undefined ? undefined : await new Dialects().of(llamaServerRuntime, llamaServer, environmentOf(io))
  const wish = wishOf(options)
  return { ...fitOf(estimator(model, wish, { metal, dialect }), wish, machine), machine }
}

function wishOf({ context, slots, kv }: FitOptions): ServingWish {
  const [keys, values = keys] = kv?.split(',') ?? []
  return {
    contextTokens: context,
    slots,
    ...(keys !== undefined && values !== undefined && { cacheTypes: [keys, values] }),
  }
}

export interface FindOptions {
  readonly io: Pick<CliIo, 'cwd' | 'env' | 'homeDir'>
  readonly modelStore: string
  readonly signal: AbortSignal
  /** For tests: the token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

/**
 * A path on this machine, a name in the model store or of the catalogue, or a source as a Model has it, of which only headers are fetched.
 * Throws VerbError, ModelError, GgufError or MlxFolderError, each with one sentence.
 */
export async function findModel(given: string, options: FindOptions): Promise<FoundModel> {
  if (/^[a-z][a-z0-9+.-]*:/i.test(given)) return onServer(given, options)
  const local = path.resolve(options.io.cwd, given)
  const there = await stat(local).catch(() => undefined)
  if (there !== undefined) return there.isDirectory() ? inFolder(local) : inFile(local)
  const stored = await inStore(given, options)
  if (stored !== undefined) return stored
  const source = inCatalogue(given)?.source ?? (parseModelSource(given).kind === 'hub' ? given : undefined)
  if (source !== undefined) return onServer(source, options)
  throw new VerbError(
    `There is no file, folder or stored model ${given}: give a path, a name that is in ${options.modelStore}, or a source such as hf://owner/name.`,
  )
}

async function inStore(name: string, { modelStore }: FindOptions): Promise<FoundModel | undefined> {
  if ((await stat(modelStore).catch(() => undefined)) === undefined) return undefined
  const stored = (await new Store({ directory: modelStore, log: silent }).list()).find(({ model }) => model === name)
  if (stored === undefined) return undefined
  const found = stored.path === stored.folder ? await inFolder(stored.path) : await inFile(stored.path)
  return stored.mmproj === undefined || found.kind === 'mlx'
    ? found
    : { ...found, mmproj: await projectorAt(stored.mmproj, readGgufHeader) }
}

const inFile = async (file: string): Promise<FoundModel> => ({
  kind: 'gguf',
  ...(await lookHere(file, readGgufHeader)),
})

/** The shape of a model, from files in the format of MLX or from a GGUF file. */
async function inFolder(folder: string): Promise<FoundModel> {
  const isMlx = await stat(path.join(folder, 'config.json')).catch(() => undefined)
  return isMlx === undefined ? inFile(folder) : { kind: 'mlx', ...(await readMlxFolder(folder)) }
}

async function onServer(source: string, options: FindOptions): Promise<FoundModel> {
  const { io, signal, allowInsecureLoopback } = options
  const parsed = parseModelSource(source)
  if (parsed.kind === 'unsupported') throw new VerbError(parsed.message)
  if (parsed.kind === 'local') return findModel(parsed.path, options)
  await using remote = new Remote({
    log: silent,
    settings: () => defaultDownloadSettings,
    env: io.env,
    homeDir: io.homeDir,
    allowInsecureLoopback,
    allowedHosts: 'any',
  })
  return { kind: 'gguf', ...(await lookAtServer(remote, { source, namespace: '' }, signal)) }
}

/** The figures that a model is sized with, and where they come from. */
export interface FitMachine extends SizingView {
  readonly from: 'agent' | 'machine'
  /** One sentence or two that say so. */
  readonly fromMessage: string
}

/** A model with what it needs, and whether that is there. */
export interface Sized {
  readonly estimate: Estimate
  readonly decision: FitDecision
  readonly ways: readonly { readonly sentence: string }[]
  readonly machine: FitMachine
}

/**
 * The figures, settings and running servers of the state folder's agent; this command's own view of the machine where no agent answers.
 * Throws VerbError.
 */
export async function machineToFit(session: AgentSessionOptions): Promise<FitMachine> {
  const asked = await askAgent(session).catch((error: unknown) => {
    if (error instanceof LinkError) return error
    throw error
  })
  if (!(asked instanceof LinkError)) return asAgentSizes(asked)
  return {
    ...(await lookAt(session.io)),
    from: 'machine',
    fromMessage: `Sized with this machine's own figures and default settings. ${asked.message}`,
  }
}

export const asAgentSizes = (sizing: SizingView): FitMachine => ({
  ...sizing,
  from: 'agent',
  fromMessage: 'Sized with the figures and settings of the running agent.',
})

async function askAgent(session: AgentSessionOptions): Promise<SizingView> {
  await using agent = await connect(session)
  return await agent.query({ name: 'sizing' })
}

async function lookAt(io: CliIo): Promise<SizingView> {
  const platform = hostPlatform(io.platform)
  const [memory, applications, { available: metal }, binary] = await Promise.all([
    platform.memory(),
    platform.biggestProcesses(8),
    platform.metal(),
    findLlamaServer({ system: platform.name, path: io.env['PATH'] }),
  ])
  const llamaServer = binary.kind === 'found' ? binary.path : undefined
  const gpuLimitBytes = await gpuLimit(platform, llamaServer, io)
  const limit = gpuLimitBytes === undefined ? {} : { gpuLimitBytes }
  const result = resolveBudget({ totalBytes: memory.totalBytes, ...limit, platform: platform.name })
  if (!result.ok) throw new VerbError(`${result.message}.`)
  return {
    platform: platform.name,
    totalBytes: memory.totalBytes,
    availableBytes: memory.availableBytes,
    budgetBytes: result.budget.bytes,
    budgetHow: result.budget.how,
    ...limit,
    pressure: 'unknown',
    holders: [],
    waiting: [],
    applications: applications.map(({ name, bytes }) => ({ name, bytes })),
    metal,
    ...(llamaServer !== undefined && { llamaServer }),
    modelStore: defaultModelStore(io.platform, io.env, io.homeDir),
  }
}

/** Where the system does not say what the GPU may hold, llama-server may know. */
async function gpuLimit(platform: Platform, llamaServer: string | undefined, io: CliIo): Promise<number | undefined> {
  const set = await platform.gpuMemoryLimit()
  if (set !== undefined || platform.name !== 'darwin' || llamaServer === undefined) return set
  return parseRecommendedWorkingSet(await listDevices(llamaServer, environmentOf(io)))
}

/** What a llama-server that is only asked something needs. */
export const environmentOf = ({ env, homeDir }: Pick<CliIo, 'env' | 'homeDir'>) => ({
  PATH: env['PATH'] ?? '',
  HOME: homeDir,
})

/** As a person gives it. */
export interface SecretQuestion {
  readonly source: string
  readonly sourceSecret: string
  /** The namespace of the Secret; absent = the one that the agent watches, else `default`. */
  readonly namespace?: string | undefined
  /** Tokens. */
  readonly context?: number | undefined
  readonly slots?: number | undefined
  readonly kv?: string | undefined
}

/** A source that a Secret of the cluster opens is looked at by the agent, which keeps the token to itself. Throws VerbError and LinkError. */
export async function fitByAgent(
  { context, slots, kv, ...rest }: SecretQuestion,
  agent: Pick<AgentClient, 'query'>,
): Promise<Sized> {
  const asked = { name: 'fit', ...rest, contextSize: context, parallelSlots: slots, cacheType: kv }
  const question = fitQuery.safeParse(asked)
  if (!question.success) {
    const [issue] = question.error.issues
    throw new VerbError(`The agent would reject this: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}.`)
  }
  const view = await agent.query(question.data)
  if (view.kind === 'choose') throw new VerbError(view.message)
  const sizing = await agent.query({ name: 'sizing' })
  const { items, totalBytes: total, contextSize: contextTokens, guess, diskProblem, notes, ways } = view
  return {
    estimate: {
      ...{ items, total, slots: view.slots ?? 1 },
      ...(contextTokens !== undefined && { contextTokens }),
      ...(guess !== undefined && { guess }),
      notes: [...(diskProblem === undefined ? [] : [diskProblem]), ...notes],
    },
    decision: decideFit(total, sizing),
    ways,
    // What keeps it from starting at once is among the notes.
    machine: { ...asAgentSizes(sizing), pressure: 'unknown', waiting: [] },
  }
}

/** Whether a model fits on this machine, in bytes; `--json` prints it as it is. */
export interface FitAnswer {
  readonly items: MemoryItems
  readonly total: number
  readonly budget: number
  /** What the system could give now. */
  readonly available: number
  /** Whose figures and settings these are: the running agent's, or this machine's as the command sees it. */
  readonly from: 'agent' | 'machine'
  /** By services, as namespace/name, whose servers run or start; the largest first. */
  readonly held: readonly { readonly service: string; readonly bytes: number }[]
  /** What starting servers will still take of what is available. */
  readonly promised: number
  /** Beside what runs. */
  readonly fits: boolean
  /** Services, as namespace/name, without which it fits; absent where it fits as it is, or not even alone. */
  readonly fitsWhenStopped?: readonly string[]
  readonly waysToFit: readonly { readonly sentence: string }[]
}

export interface FitDetails {
  readonly estimate: Estimate
  readonly decision: FitDecision
  readonly machine: Pick<FitMachine, 'fromMessage' | 'budgetHow' | 'pressure' | 'waiting'>
  readonly unicode: boolean
}

const barWidth = 30
const nameWidth = 18
const sizeWidth = 9

/**
 * The items stacked, each bar beginning where the one above ends, over a width that stands for the budget or, where it is the larger,
 * the total. Names of applications and of services come from elsewhere, so each line is cleaned and stays one.
 */
export function renderFit(answer: FitAnswer, { estimate, decision, machine, unicode }: FitDetails): string {
  const { items, total, budget, available, held, promised, fits, waysToFit } = answer
  const scale = Math.max(total, budget, 1)
  const cell = (bytes: number) => Math.round((bytes / scale) * barWidth)
  const full = unicode ? '█' : '#'
  const empty = unicode ? '·' : '.'
  const row = (name: string, size: string, rest = '') =>
    `${name.padEnd(nameWidth)}${size.padStart(sizeWidth)}  ${rest}`.trimEnd()
  const bar = (from: number, to: number) => {
    const start = cell(from)
    // An item shows at least one cell, however small.
    const end = Math.max(cell(to), to > from ? start + 1 : start)
    const shift = Math.max(0, end - barWidth)
    return `${empty.repeat(start - shift)}${full.repeat(end - start)}${empty.repeat(barWidth - end + shift)}`
  }
  let below = 0
  const stacked = (Object.keys(itemNames) as (keyof MemoryItems)[]).flatMap((item) => {
    const { [item]: bytes } = items
    if (bytes === undefined) return []
    const from = below
    below += bytes
    return [row(capitalised(itemNames[item]), formatBytes(bytes), bar(from, below))]
  })
  const context =
    estimate.contextTokens === undefined
      ? []
      : [`${formatCount(estimate.contextTokens)} tokens of context, ${slotsText(estimate.slots ?? 1)}`]
  return [
    ...context,
    ...stacked,
    row('Total', formatBytes(total), bar(0, total)),
    row('Budget', formatBytes(budget), machine.budgetHow),
    ...(held.length === 0 ? [] : [row('Held by servers', formatBytes(sumOf(held)), held.map(holderText).join(', '))]),
    row('Available now', formatBytes(available)),
    ...(promised === 0 ? [] : [row('  of it promised', formatBytes(promised), 'to servers that start')]),
    ...(estimate.gpuBytes === undefined ? [] : [row('  of it on the GPU', formatBytes(estimate.gpuBytes))]),
    '',
    verdict(answer, decision),
    ...(fits ? [] : waysToFit.map(({ sentence }) => `  ${unicode ? '•' : '-'} ${sentence}.`)),
    ...(estimate.guess === undefined ? [] : [`This estimate is a guess. ${estimate.guess}`]),
    ...obstacles(machine),
    ...estimate.notes,
    machine.fromMessage,
    '',
  ]
    .map(cleanText)
    .join('\n')
}

function verdict(answer: FitAnswer, decision: FitDecision): string {
  const runsNothing = answer.held.length === 0
  const hasWays = answer.waysToFit.length > 0
  switch (decision.kind) {
    case 'fits':
      return runsNothing ? 'It fits.' : 'It fits beside what runs.'
    case 'whenStopped': {
      const { stop, shortage } = decision
      const freed = stop.reduce((sum, { freesBytes }) => sum + freesBytes, 0)
      const names = listed(stop.map(refKey))
      const when = stop.length === answer.held.length ? 'It fits alone, when' : 'It fits when'
      const stopped = `${names} ${stop.length === 1 ? 'is' : 'are'} stopped, which frees ${formatBytes(freed)}`
      const sentence = `It does not fit beside what runs: it needs ${missing(shortage, 'than the budget has left', 'than is available now')}. ${when} ${stopped}.`
      return hasWays ? `${sentence} What else would help:` : sentence
    }
    case 'not': {
      const sentence = runsNothing
        ? `It does not fit: it needs ${missing(decision.shortage, 'than the budget', 'than is available now')}.`
        : `It does not fit, even with every model stopped: it would still need ${missing(decision.shortage, 'than the budget', 'than would be available')}.`
      return hasWays ? `${sentence} What would help:` : `${sentence} Nothing on this machine would make it fit.`
    }
  }
}

const missing = ({ budget, available }: Shortage, thanBudget: string, thanAvailable: string): string =>
  [
    ...(budget > 0 ? [`${formatBytes(budget)} more ${thanBudget}`] : []),
    ...(available > 0 ? [`${formatBytes(available)} more ${thanAvailable}`] : []),
  ].join(' and ')

/** What keeps it from starting at once although it fits. */
function obstacles({ pressure, waiting }: FitDetails['machine']): string[] {
  return [
    ...(pressure === 'critical' ? ['Memory pressure is critical: nothing new is started until it has passed.'] : []),
    ...(waiting.length === 0
      ? []
      : [
          `${listed(waiting)} ${waiting.length === 1 ? 'is' : 'are'} already waiting for memory: it goes by priority, then by age.`,
        ]),
  ]
}

const sumOf = (held: FitAnswer['held']): number => held.reduce((sum, { bytes }) => sum + bytes, 0)
const holderText = ({ service, bytes }: FitAnswer['held'][number]): string => `${service} ${formatBytes(bytes)}`
const capitalised = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`
const slotsText = (slots: number): string => (slots === 1 ? '1 slot' : `${slots} slots`)

function listed(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`
}
