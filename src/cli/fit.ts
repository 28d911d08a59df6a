import { stat } from 'node:fs/promises'
import path from 'node:path'
import { fitted, type FoundModel, sizedLook } from '../agent-core/api/fit.ts'
import { resolveBudget, parseRecommendedWorkingSet } from '../agent-core/memory/budget.ts'
import { type MemoryItems, itemNames } from '../agent-core/memory/estimate/items.ts'
import { MlxFolderError, readMlxFolder } from '../agent-core/memory/estimate/mlx.ts'
import { ModelError } from '../agent-core/models/errors.ts'
import { readGgufHeader } from '../agent-core/models/gguf/file-header.ts'
import { GgufError } from '../agent-core/models/gguf/gguf.ts'
import { lookAtServer, lookHere } from '../agent-core/models/look.ts'
import { defaultDownloadSettings } from '../agent-core/models/models.ts'
import { Remote } from '../agent-core/models/remote.ts'
import { parseModelSource } from '../agent-core/models/source.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import { PlatformError, type Platform } from '../agent-core/platform/platform.ts'
import { Dialects } from '../agent-core/runtimes/dialect.ts'
import { findLlamaServer, listDevices, llamaServerRuntime } from '../agent-core/runtimes/llama-server.ts'
import { ProgramError } from '../agent-core/util/ask-program.ts'
import { cleanText } from '../contract/clean-text.ts'
import { LinkError } from '../contract/client.ts'
import { fitQuery, type FittedModelView } from '../contract/fit.ts'
import { formatBytes, formatCount } from '../contract/format.ts'
import type { SizingView } from '../contract/memory.ts'
import { sourceOfModel } from '../contract/model-application.ts'
import type { Query } from '../contract/queries.ts'
import { connect, sayingLinkErrors, VerbError } from './agent-session.ts'
import { exitCodes, usesUnicode, type CliIo } from './io.ts'

export interface FitOptions {
  readonly json: boolean
  /** Tokens. */
  readonly context?: number | undefined
  readonly slots?: number | undefined
  readonly kv?: string | undefined
  /** A Secret of the cluster whose token opens the source. */
  readonly sourceSecret?: string | undefined
  readonly namespace?: string | undefined
  readonly stateDir: string
}

type FitQuestion = Extract<Query, { name: 'fit' }>
type Judgement = Omit<FittedModelView, 'kind' | 'source' | 'files'>

/** The judgement of a model, and by whose figures and settings it was made: the agent's, or this machine's as the command sees it. */
interface FitAnswer {
  readonly view: Judgement
  readonly from: 'agent' | 'machine'
  /** One sentence or two that say so. */
  readonly fromMessage: string
}

/** Prints whether the model fits on this machine, beside what the agent runs; answers the exit code. Throws VerbError. */
export async function fit(given: string, options: FitOptions, io: CliIo): Promise<number> {
  try {
    return await sayingLinkErrors(io, async () => {
      const answer = await answered(given, options, io)
      const { view, from } = answer
      io.stdout.write(
        options.json ? `${JSON.stringify({ ...view, from }, null, 2)}\n` : renderFit(answer, usesUnicode(io)),
      )
      return view.verdict === 'fits' ? exitCodes.done : exitCodes.doesNotFit
    })
  } catch (error) {
    if (!isSaid(error)) throw error
    io.stderr.write(`metal-agent: ${cleanText(error.message)}\n`)
    return exitCodes.failed
  }
}

/** Errors whose message is a sentence for people. */
const isSaid = (error: unknown): error is Error =>
  [ModelError, GgufError, MlxFolderError, PlatformError, ProgramError, RangeError].some((kind) => error instanceof kind)

/** A file or folder is read by this command, which may read what its person may; a source is asked of the agent where one runs. */
async function answered(given: string, options: FitOptions, io: CliIo): Promise<FitAnswer> {
  const file = options.sourceSecret === undefined ? await fileOf(given, io) : undefined
  const question = questionOf(file ?? given, options)
  const agent = await connect({ io, stateDir: options.stateDir }).catch((error: unknown) => {
    if (error instanceof LinkError && question.sourceSecret === undefined) return error
    throw error
  })
  if (agent instanceof LinkError) {
    const view = judged(await lookAt(question.source, file, io), question, await ownFigures(io), io)
    const fromMessage = `Sized with this machine's own figures and default settings. ${agent.message}`
    return { view: await view, from: 'machine', fromMessage }
  }
  await using connected = agent
  const from = { from: 'agent', fromMessage: 'Sized with the figures and settings of the running agent.' } as const
  if (file !== undefined) {
    const machine = await connected.query({ name: 'sizing' })
    return { view: await judged(await lookAt(question.source, file, io), question, machine, io), ...from }
  }
  const view = await connected.query(question)
  if (view.kind === 'choose') throw new VerbError(view.message)
  return { view, ...from }
}

/** The path of what is on this machine; undefined for a source. Throws VerbError for what is neither. */
async function fileOf(given: string, { cwd }: CliIo): Promise<string | undefined> {
  const source = parseModelSource(sourceOfModel(given))
  const isAddress = /^[a-z][a-z0-9+.-]*:/i.test(given)
  if (isAddress && source.kind !== 'local') return undefined
  const file = path.resolve(cwd, source.kind === 'local' ? source.path : given)
  if ((await stat(file).catch(() => undefined)) !== undefined) return file
  if (source.kind !== 'unsupported' && source.kind !== 'local') return undefined
  throw new VerbError(`There is no file or folder ${given}: give a path, or a source such as hf://owner/name.`)
}

/** Throws VerbError. */
function questionOf(source: string, { context, slots, kv, sourceSecret, namespace }: FitOptions): FitQuestion {
  const asked = { source: sourceOfModel(source), sourceSecret, namespace }
  const wish = { contextSize: context, parallelSlots: slots, cacheType: kv }
  const question = fitQuery.safeParse({ name: 'fit', ...asked, ...wish })
  const parsed = parseModelSource(asked.source)
  if (parsed.kind === 'unsupported') throw new VerbError(parsed.message)
  if (question.success) return question.data
  const [issue] = question.error.issues
  throw new VerbError(`The agent would reject this: ${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}.`)
}

async function judged(model: FoundModel, question: FitQuestion, machine: SizingView, io: CliIo): Promise<Judgement> {
  const { llamaServer } = machine
  const dialect =
    llamaServer === undefined ? undefined : await new Dialects().of(llamaServerRuntime, llamaServer, environmentOf(io))
  const { contextSize: contextTokens, parallelSlots: slots, cacheType } = question
  return fitted(model, { contextTokens, slots, cacheType }, { machine, dialect })
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

/** Of a source only headers are fetched. Throws ModelError, GgufError or MlxFolderError, each with one sentence. */
async function lookAt(source: string, file: string | undefined, io: CliIo): Promise<FoundModel> {
  if (file !== undefined) {
    const isMlx = await stat(path.join(file, 'config.json')).catch(() => undefined)
    if (isMlx !== undefined) return { kind: 'mlx', ...(await readMlxFolder(file)) }
    return { kind: 'gguf', ...sizedLook(await lookHere(file, readGgufHeader)) }
  }
  await using remote = new Remote({
    log: silent,
    settings: () => defaultDownloadSettings,
    env: io.env,
    homeDir: io.homeDir,
    allowedHosts: 'any',
  })
  const look = await lookAtServer(remote, { source, namespace: '' }, new AbortController().signal)
  return { kind: 'gguf', ...sizedLook(look) }
}

/** This command's own view of the machine, with the default budget. Throws VerbError. */
async function ownFigures(io: CliIo): Promise<SizingView> {
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
    ...limit,
    pressure: 'unknown',
    holders: [],
    waiting: [],
    applications: applications.map(({ name, bytes }) => ({ name, bytes })),
    metal,
    ...(llamaServer !== undefined && { llamaServer }),
  }
}

/** Where the system does not say what the GPU may hold, llama-server may know. */
async function gpuLimit(platform: Platform, llamaServer: string | undefined, io: CliIo): Promise<number | undefined> {
  const set = await platform.gpuMemoryLimit()
  if (set !== undefined || platform.name !== 'darwin' || llamaServer === undefined) return set
  return parseRecommendedWorkingSet(await listDevices(llamaServer, environmentOf(io)))
}

/** What a llama-server that is only asked something needs. */
const environmentOf = ({ env, homeDir }: CliIo) => ({ PATH: env['PATH'] ?? '', HOME: homeDir })

const barWidth = 30
const nameWidth = 18
const sizeWidth = 9

/**
 * The items stacked, each bar beginning where the one above ends, over a width that stands for the budget or, where it is the larger,
 * the total. Names of applications and of services come from elsewhere, so each line is cleaned and stays one.
 */
export function renderFit({ view, fromMessage }: Omit<FitAnswer, 'from'>, unicode: boolean): string {
  const { items, totalBytes: total, room, verdict, contextSize, slots = 1, diskProblem, guess } = view
  const scale = Math.max(total, room.budgetBytes, 1)
  const cell = (bytes: number) => Math.round((bytes / scale) * barWidth)
  const full = unicode ? '█' : '#'
  const empty = unicode ? '·' : '.'
  const row = (name: string, bytes: number, rest = '') =>
    `${name.padEnd(nameWidth)}${formatBytes(bytes).padStart(sizeWidth)}  ${rest}`.trimEnd()
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
    return [row(capitalised(itemNames[item]), bytes, bar(from, below))]
  })
  const slotsText = slots === 1 ? '1 slot' : `${slots} slots`
  return [
    ...(contextSize === undefined ? [] : [`${formatCount(contextSize)} tokens of context, ${slotsText}`]),
    ...stacked,
    row('Total', total, bar(0, total)),
    row('Budget', room.budgetBytes),
    ...(room.committedBytes === 0 ? [] : [row('Held by servers', room.committedBytes)]),
    row('Available now', room.availableBytes),
    '',
    view.message,
    ...(verdict === 'fits' ? [] : view.ways.map(({ sentence }) => `  ${unicode ? '•' : '-'} ${sentence}.`)),
    ...(guess === undefined ? [] : [`This estimate is a guess. ${guess}`]),
    ...(diskProblem === undefined ? [] : [diskProblem]),
    ...view.notes,
    fromMessage,
    '',
  ]
    .map(cleanText)
    .join('\n')
}

const capitalised = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`
