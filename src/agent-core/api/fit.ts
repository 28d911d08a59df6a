import type { Estimate } from '../memory/estimate/items.ts'
import { estimateLlamaServer, mergedTensors } from '../memory/estimate/llama-server.ts'
import { estimateMlx } from '../memory/estimate/mlx.ts'
import type { ModelHeader } from '../memory/estimate/model-shape.ts'
import {
  countedOnce,
  fewestEvictions,
  fits,
  freedBy,
  type Room,
  roomWithout,
  type Shortage,
  shortageOf,
} from '../memory/room.ts'
import { type ServerChange, waysToFit, type WayToFit } from '../memory/ways-to-fit.ts'
import type { GgufFields, GgufHeader } from '../models/gguf/gguf.ts'
import type { ModelLook } from '../models/look.ts'
import type { Dialect } from '../runtimes/dialect.ts'
import { llamaServerArgv } from '../runtimes/llama-server.ts'
import { slotsOf } from '../runtimes/mlx-lm.ts'
import { refKey } from '../util/object-key.ts'
import { sentence } from '../../contract/clean-text.ts'
import type { FittedModelView, FitVerdict } from '../../contract/fit.ts'
import { formatBytes } from '../../contract/format.ts'
import type { HolderView, SizingView } from '../../contract/memory.ts'
import type { WayToFitView } from '../../contract/service.ts'

/** What decides, of what a model is sized with. */
type FitFigures = Pick<SizingView, 'budgetBytes' | 'availableBytes' | 'holders'>

/** Whether a model fits, by the arithmetic of admission. */
export type FitDecision =
  | { readonly kind: 'fits' }
  /** Not beside what runs, but when these services are stopped: the fewest, those of the lowest priority first. */
  | { readonly kind: 'whenStopped'; readonly stop: readonly Stopped[]; readonly shortage: Shortage }
  /** Not even with everything stopped, of which `shortage` tells. */
  | { readonly kind: 'not'; readonly shortage: Shortage }

/** `freesBytes`: 0 where another of those to be stopped has the same memory and is counted. */
type Stopped = HolderView & { readonly freesBytes: number }

function decideFit(needBytes: number, figures: FitFigures): FitDecision {
  const room = roomOf(figures)
  if (fits(needBytes, room)) return { kind: 'fits' }
  // A person may also stop what no agent would evict.
  const holders = figures.holders.map((holder) => ({ ...holder, key: refKey(holder), isProtected: false }))
  const stop = fewestEvictions(needBytes, room, holders)
  if (stop === undefined) return { kind: 'not', shortage: shortageOf(needBytes, roomWithout(room, holders)) }
  const freed = new Set(freedBy(stop))
  return {
    kind: 'whenStopped',
    stop: stop.map((one) => ({ ...one, freesBytes: freed.has(one) ? one.committedBytes : 0 })),
    shortage: shortageOf(needBytes, room),
  }
}

/** What the model meets beside what runs. */
function roomOf({ budgetBytes, availableBytes, holders }: FitFigures): Room {
  const counted = countedOnce(holders)
  const sum = (of: (holder: HolderView) => number) => counted.reduce((total, holder) => total + of(holder), 0)
  return {
    budgetBytes,
    availableBytes,
    committedBytes: sum(({ committedBytes }) => committedBytes),
    promisedBytes: sum(({ promisedBytes }) => promisedBytes),
  }
}

/** Whether a model fits beside what runs, and what would make it fit. */
interface Fit {
  readonly estimate: Estimate
  readonly room: Room
  readonly decision: FitDecision
  /** Without those that stop servers: the decision names them. */
  readonly ways: readonly WayToFit[]
}

/** Throws RangeError where the header of the model cannot be right. */
function fitOf(
  estimateWith: (change: ServerChange) => Estimate,
  { contextTokens, slots }: ServingWish,
  machine: SizingView,
): Fit {
  const estimate = estimateWith({})
  const room = roomOf(machine)
  const ways = waysToFit({
    needBytes: estimate.total,
    room,
    priority: 'normal',
    ...(estimate.contextTokens !== undefined && { contextTokens: contextTokens ?? estimate.contextTokens }),
    ...(slots !== undefined && { slots }),
    estimateAt: (change) => estimateWith(change).total,
    // The person who asks decides which servers may be stopped, not their priority: see `decideFit`.
    servers: [],
    apps: machine.applications,
    totalBytes: machine.totalBytes,
    ...(machine.gpuLimitBytes !== undefined && { gpuLimitBytes: machine.gpuLimitBytes }),
    platform: machine.platform,
  })
  return { estimate, room, decision: decideFit(estimate.total, machine), ways }
}

interface Judging {
  readonly estimateWith: (change: ServerChange) => Estimate
  readonly machine: SizingView
}

/** Longest text from a model's file that is shown: anybody may have written it. */
const maxTextBytes = 200
const maxNoteBytes = 1_000

/** What a person is shown of a model that no service asks for yet. Throws RangeError where its header cannot be right. */
export function fitted(
  model: FoundModel,
  wish: ServingWish,
  { machine, dialect }: { readonly machine: SizingView; readonly dialect: Dialect | undefined },
): Omit<FittedModelView, 'kind' | 'source' | 'files' | 'diskProblem'> {
  const estimateWith = estimator(model, wish, { metal: machine.metal, dialect })
  const fit = fitOf(estimateWith, wish, machine)
  const { estimate, room, ways } = fit
  const unload = fit.decision.kind === 'whenStopped' ? fit.decision.stop : []
  const verdict = verdictOf(fit)
  const notes = model.kind === 'gguf' ? model.notes : []
  return {
    ...(model.kind === 'gguf' ? headerView(model) : { sizeBytes: model.tensorBytes, isStored: true }),
    ...(estimate.contextTokens !== undefined && { contextSize: estimate.contextTokens }),
    ...(estimate.slots !== undefined && { slots: estimate.slots }),
    items: estimate.items,
    totalBytes: estimate.total,
    ...(estimate.guess !== undefined && { guess: sentence(estimate.guess, maxNoteBytes) }),
    notes: [...notes, ...estimate.notes, ...obstacles(machine)].map((note) => sentence(note, maxNoteBytes)),
    verdict,
    message: messageOf(fit, verdict),
    unload: unload.map(({ namespace, name, freesBytes }) => ({ namespace, name, freesBytes })),
    ways: ways.map(wayView),
    contexts: contextsOf(model.kind === 'gguf' ? model.header.contextLength : undefined, { estimateWith, machine }),
    room: {
      budgetBytes: room.budgetBytes,
      committedBytes: room.committedBytes,
      availableBytes: machine.availableBytes,
    },
  }
}

function headerView({ header, mmproj, parameters, fileBytes, isHere }: SizedLook) {
  const { architecture, quantization, contextLength } = header
  return {
    ...(quantization !== undefined && { quantization: sentence(quantization, maxTextBytes) }),
    ...(architecture !== '' && { architecture: sentence(architecture, maxTextBytes) }),
    ...(parameters > 0 && Number.isSafeInteger(parameters) && { parameters }),
    sizeBytes: fileBytes + (mmproj?.fileBytes ?? 0),
    ...(contextLength !== undefined && { trainedContext: contextLength }),
    isStored: isHere,
  }
}

const verdictOf = ({ decision, ways }: Pick<Fit, 'decision' | 'ways'>): FitVerdict =>
  decision.kind === 'fits'
    ? 'fits'
    : decision.kind === 'whenStopped'
      ? 'afterUnloading'
      : ways.some(raisesBudget)
        ? 'afterRaising'
        : 'doesNotFit'

const raisesBudget = ({ kind }: WayToFit): boolean => kind === 'budget'

function messageOf({ decision, estimate: { total } }: Fit, verdict: FitVerdict): string {
  const needs = `needs ${formatBytes(total)}`
  switch (decision.kind) {
    case 'fits':
      return `It fits: it ${needs}.`
    case 'whenStopped': {
      const freed = decision.stop.reduce((sum, { freesBytes }) => sum + freesBytes, 0)
      const names = decision.stop.map(refKey).join(', ')
      return `It ${needs} and fits when ${names} ${decision.stop.length === 1 ? 'leaves' : 'leave'} memory, which frees ${formatBytes(freed)}.`
    }
    case 'not': {
      const { budget, available } = decision.shortage
      const missing = [
        ...(budget > 0 ? [`${formatBytes(budget)} more than the budget`] : []),
        ...(available > 0 ? [`${formatBytes(available)} more than this machine has available`] : []),
      ].join(' and ')
      const alone = `It ${needs}: even alone, that is ${missing}`
      return verdict === 'afterRaising' ? `${alone}. It fits with a larger budget.` : `${alone}. It does not fit.`
    }
  }
}

/** What keeps it from starting at once although it fits. */
function obstacles({ pressure, waiting }: SizingView): string[] {
  return [
    ...(pressure === 'critical' ? ['Memory pressure is critical: nothing new is started until it has passed.'] : []),
    ...(waiting.length > 0
      ? [`Others are already waiting for memory (${waiting.join(', ')}): it goes by priority, then by age.`]
      : []),
  ]
}

/** Longest context offered for a model that does not say what it was trained with. */
const assumedLongest = 32_768
const shortest = 512
const schemaLongest = 2_097_152

/** Four steps to each doubling, and the length that the model was trained with. */
function contextsOf(
  contextLength: number | undefined,
  { estimateWith, machine }: Judging,
): FittedModelView['contexts'] {
  if (estimateWith({}).contextTokens === undefined) return []
  const longest = Math.min(schemaLongest, Math.max(shortest, contextLength ?? assumedLongest))
  const steps: number[] = []
  for (let octave = shortest; octave < longest; octave *= 2) {
    for (const part of [1, 1.25, 1.5, 1.75]) if (octave * part < longest) steps.push(octave * part)
  }
  return [...steps, longest].flatMap((contextSize) => {
    const estimate = estimateOr(() => estimateWith({ contextTokens: contextSize }))
    if (!estimate) return []
    const { total, items } = estimate
    const verdict = verdictOf(fitOf(() => estimate, {}, machine))
    return [{ contextSize, totalBytes: total, kvBytes: items.kv, verdict }]
  })
}

/** Undefined where the numbers are beyond any computer. */
function estimateOr(estimate: () => Estimate): Estimate | undefined {
  try {
    return estimate()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** As a person is shown it, with what a button for it does. */
export function wayView(way: WayToFit): WayToFitView {
  const { kind, sentence: text } = way
  return { kind, sentence: text, ...effectOf(way) }
}

function effectOf(way: WayToFit): Omit<WayToFitView, 'kind' | 'sentence'> {
  switch (way.kind) {
    case 'change': {
      const { contextTokens, kvType, slots } = way.change
      return {
        change: {
          ...(contextTokens !== undefined && { contextSize: contextTokens }),
          ...(kvType !== undefined && { cacheType: kvType }),
          ...(slots !== undefined && { parallelSlots: slots }),
        },
      }
    }
    case 'evict':
      return { evict: [...way.keys] }
    case 'quit':
      return { quit: [...way.apps] }
    case 'budget': {
      const { of, bytes, command } = way
      return { budget: { of, bytes, ...(command !== undefined && { command }) } }
    }
    case 'both':
      return way.ways.reduce((all, one) => ({ ...all, ...effectOf(one) }), {})
  }
}

/** A look without its single tensors: what an estimate and a person ask for, however often. */
export interface SizedLook extends Omit<ModelLook, 'header' | 'shards' | 'mmproj'> {
  readonly header: GgufFields & ModelHeader
  readonly shards: readonly ModelHeader[]
  readonly mmproj?: { readonly fileBytes: number; readonly header: ModelHeader }
  /** All numbers in all tensors; those of a damaged header may be beyond any model. */
  readonly parameters: number
}

export const sizedLook = ({ header, shards, mmproj, ...rest }: ModelLook): SizedLook => ({
  ...rest,
  header: merged(header),
  shards: shards.map(({ tensors }) => ({ metadata: new Map(), tensors: mergedTensors(tensors) })),
  ...(mmproj && { mmproj: { ...mmproj, header: merged(mmproj.header) } }),
  parameters: [header, ...shards].reduce((sum, { tensors }) => sum + parametersOf(tensors), 0),
})

const merged = (header: GgufHeader): GgufFields & ModelHeader => ({ ...header, tensors: mergedTensors(header.tensors) })

const parametersOf = (tensors: GgufHeader['tensors']): number =>
  tensors.reduce((sum, { dimensions }) => sum + dimensions.reduce((product, length) => product * length, 1), 0)

/** A model that was looked at, in a GGUF file or as a folder of MLX. */
export type FoundModel =
  | ({ readonly kind: 'gguf' } & SizedLook)
  | { readonly kind: 'mlx'; readonly config: unknown; readonly tensorBytes: number }

type SizedModel =
  | ({ readonly kind: 'gguf' } & Pick<SizedLook, 'header' | 'shards' | 'fileBytes' | 'mmproj'>)
  | Extract<FoundModel, { kind: 'mlx' }>

/** How the model would be served; absent = the defaults of a service. */
export interface ServingWish {
  readonly contextTokens?: number | undefined
  readonly slots?: number | undefined
  /** Type of the KV cache, for keys and for values. */
  readonly cacheType?: string | undefined
}

interface ServingHost {
  readonly metal: boolean
  /** Absent = the classic one. */
  readonly dialect: Dialect | undefined
}

/** The estimate with a change applied, as the agent would start the server. It throws RangeError where the header cannot be right. */
export function estimator(
  model: SizedModel,
  { contextTokens, slots, cacheType }: ServingWish,
  { metal, dialect }: ServingHost,
): (change: ServerChange) => Estimate {
  if (model.kind === 'mlx') {
    return (change) => {
      const tokens = change.contextTokens ?? contextTokens
      return estimateMlx({
        ...model,
        ...(tokens !== undefined && { contextTokens: tokens }),
        slots: slotsOf({ parallelSlots: change.slots ?? slots }),
        metal,
      })
    }
  }
  return (change) =>
    estimateLlamaServer({
      ...model,
      argv: llamaServerArgv({
        spec: {
          contextSize: change.contextTokens ?? contextTokens,
          parallelSlots: change.slots ?? slots,
          cacheTypeK: change.kvType ?? cacheType,
          cacheTypeV: change.kvType ?? cacheType,
        },
        modelPath: 'model.gguf',
        port: 0,
        ...(dialect !== undefined && { dialect }),
      }),
      host: { metal },
    })
}
