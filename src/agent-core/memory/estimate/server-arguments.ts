import { z } from 'zod'
import { KeptWorkers, startWorker } from '../../util/worker.ts'

/** What the patterns of a command line say about the tensors of a model. */
export interface TensorMatches {
  /** By the name of a tensor the first pattern that matches it, which decides where it goes; the others are missing. */
  readonly deciding: ReadonlyMap<string, string>
  /** The patterns that are regular expressions. */
  readonly readable: ReadonlySet<string>
}

export const noMatches: TensorMatches = { deciding: new Map(), readable: new Set() }

export const patternQuestion = z.object({ patterns: z.array(z.string()), names: z.array(z.string()) })

const patternAnswer = z.object({
  readable: z.array(z.boolean()),
  /** For each name the index of the first pattern that matches it, -1 where none does. */
  first: z.array(z.int()),
})
export type PatternAnswer = z.infer<typeof patternAnswer>

/** Usual patterns take milliseconds for every tensor of a model; what takes longer is not worth a core. */
const defaultLimitMs = 10_000

/** Its memory is bounded too: a pattern may ask for that instead. */
const heapMiB = 64

const workers = new KeptWorkers(() => startWorker(new URL('./pattern-worker.ts', import.meta.url), { heapMiB }))

/**
 * A pattern of an InferenceService may be written so that matching it never ends, and each is compared with every tensor: that is done in
 * a worker thread, which is ended at the deadline. Throws RangeError with a sentence.
 */
export async function matchTensors(
  patterns: readonly string[],
  names: readonly string[],
  limitMs: number = defaultLimitMs,
): Promise<TensorMatches> {
  if (patterns.length === 0) return noMatches
  const answer = await workers
    .ask({ patterns, names }, { signal: AbortSignal.timeout(limitMs) })
    .catch((error: unknown) => {
      throw new RangeError(
        `Which tensors the patterns of spec.tensorOverrides match could not be worked out within ${limitMs / 1_000} s and ${heapMiB} MiB: use simpler patterns.`,
        { cause: error },
      )
    })
  const { readable, first } = patternAnswer.parse(answer)
  const deciding = names.flatMap((name, at) => {
    const pattern = patterns[first[at] ?? -1]
    return pattern === undefined ? [] : [[name, pattern] as const]
  })
  return { deciding: new Map(deciding), readable: new Set(patterns.filter((_, at) => readable[at])) }
}

/** What of llama-server's arguments decides about memory, with the defaults of llama.cpp 11434 (common.h, arg.cpp, server.cpp). */
export interface ServerArguments {
  /** 0 = what the model was trained with. */
  readonly contextTokens: number
  readonly batch: number
  readonly microBatch: number
  readonly slots: number
  /** One cache that all slots share, instead of an equal part for each. */
  readonly isUnified: boolean
  readonly cacheTypeK: string
  readonly cacheTypeV: string
  readonly flashAttention: boolean
  readonly fullSlidingWindow: boolean
  readonly offloadsKv: boolean
  /** Layers on the GPU, the output layer being one. */
  readonly gpuLayers: number
  /** Whether overrides keep the tensor of this name with the CPU. */
  readonly keepsOnCpu: (tensor: string) => boolean
  readonly isMapped: boolean
  readonly embeds: boolean
  /** MiB; -1 = no limit; undefined = not said. */
  readonly cacheRam: number | undefined
  readonly checkpoints: number
  readonly checkpointStep: number
  readonly mmproj: string | undefined
  readonly offloadsMmproj: boolean
  /** Whether only as many outputs are reserved as slots can ask for, which llama.cpp does since June 2026 (#23861). */
  readonly boundsOutputs: boolean
  /** The draft model of speculative decoding; undefined where none is named. */
  readonly draft: DraftArguments | undefined
  /** Files that are loaded whole beside the model: adapters and control vectors, each as often as it is named. */
  readonly adapters: readonly string[]
  /** What `--override-kv` puts in the place of the header's own, by key. */
  readonly headerOverrides: ReadonlyMap<string, string | number | boolean>
  /** Patterns of `--override-tensor` that are none. */
  readonly unreadable: readonly string[]
}

/** A model of its own in the same server: its context and slots are those of the model that it drafts for. */
interface DraftArguments {
  readonly file: string
  readonly cacheTypeK: string
  readonly cacheTypeV: string
  readonly gpuLayers: number
}

type Valued = keyof typeof valued
type Switch = keyof typeof switches

/** Options with a value, and the variable that stands for each where it is not given. */
const valued = {
  context: { flags: ['-c', '--ctx-size'], env: 'LLAMA_ARG_CTX_SIZE' },
  perSlot: { flags: ['--kv-unified-per-slot'], env: 'LLAMA_ARG_KV_UNIFIED_PER_SLOT' },
  batch: { flags: ['-b', '--batch-size'], env: 'LLAMA_ARG_BATCH' },
  microBatch: { flags: ['-ub', '--ubatch-size'], env: 'LLAMA_ARG_UBATCH' },
  slots: { flags: ['-np', '--parallel'], env: 'LLAMA_ARG_N_PARALLEL' },
  cacheTypeK: { flags: ['-ctk', '--cache-type-k'], env: 'LLAMA_ARG_CACHE_TYPE_K' },
  cacheTypeV: { flags: ['-ctv', '--cache-type-v'], env: 'LLAMA_ARG_CACHE_TYPE_V' },
  flashAttention: { flags: ['-fa', '--flash-attn'], env: 'LLAMA_ARG_FLASH_ATTN' },
  gpuLayers: { flags: ['-ngl', '--gpu-layers', '--n-gpu-layers'], env: 'LLAMA_ARG_N_GPU_LAYERS' },
  overrideTensor: { flags: ['-ot', '--override-tensor'], env: 'LLAMA_ARG_OVERRIDE_TENSOR' },
  draftOverrideTensor: { flags: ['-otd', '--override-tensor-draft', '--spec-draft-override-tensor'], env: '' },
  cpuExpertLayers: { flags: ['-ncmoe', '--n-cpu-moe'], env: 'LLAMA_ARG_N_CPU_MOE' },
  cpuDenseLayers: { flags: ['-ncffn', '--n-cpu-ffn'], env: 'LLAMA_ARG_N_CPU_FFN' },
  loadMode: { flags: ['-lm', '--load-mode'], env: 'LLAMA_ARG_LOAD_MODE' },
  cacheRam: { flags: ['-cram', '--cache-ram'], env: 'LLAMA_ARG_CACHE_RAM' },
  checkpoints: { flags: ['-ctxcp', '--ctx-checkpoints', '--swa-checkpoints'], env: 'LLAMA_ARG_CTX_CHECKPOINTS' },
  checkpointStep: { flags: ['-cms', '--checkpoint-min-step'], env: 'LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT' },
  mmproj: { flags: ['-mm', '--mmproj'], env: 'LLAMA_ARG_MMPROJ' },
  draft: { flags: ['-md', '--model-draft', '--spec-draft-model'], env: 'LLAMA_ARG_SPEC_DRAFT_MODEL' },
  draftCacheTypeK: {
    flags: ['-ctkd', '--cache-type-k-draft', '--spec-draft-type-k'],
    env: 'LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K',
  },
  draftCacheTypeV: {
    flags: ['-ctvd', '--cache-type-v-draft', '--spec-draft-type-v'],
    env: 'LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V',
  },
  draftGpuLayers: {
    flags: ['-ngld', '--gpu-layers-draft', '--n-gpu-layers-draft', '--spec-draft-ngl'],
    env: 'LLAMA_ARG_N_GPU_LAYERS_DRAFT',
  },
  adapter: { flags: ['--lora', '--control-vector'], env: '' },
  scaledAdapter: { flags: ['--lora-scaled', '--control-vector-scaled'], env: '' },
  overrideKey: { flags: ['--override-kv'], env: '' },
} as const

/** Options without a value; those that end with `off` undo those before them. */
const switches = {
  unified: { on: ['-kvu', '--kv-unified'], off: ['-no-kvu', '--no-kv-unified'], env: 'LLAMA_ARG_KV_UNIFIED' },
  fullSlidingWindow: { on: ['--swa-full'], off: [], env: 'LLAMA_ARG_SWA_FULL' },
  offloadKv: { on: ['-kvo', '--kv-offload'], off: ['-nkvo', '--no-kv-offload'], env: 'LLAMA_ARG_KV_OFFLOAD' },
  cpuExperts: { on: ['-cmoe', '--cpu-moe'], off: [], env: 'LLAMA_ARG_CPU_MOE' },
  map: { on: ['--mmap'], off: ['--no-mmap'], env: 'LLAMA_ARG_MMAP' },
  embed: { on: ['--embedding', '--embeddings', '--rerank', '--reranking'], off: [], env: 'LLAMA_ARG_EMBEDDINGS' },
  offloadMmproj: { on: ['--mmproj-offload'], off: ['--no-mmproj-offload'], env: 'LLAMA_ARG_MMPROJ_OFFLOAD' },
  noMmproj: { on: ['--no-mmproj', '--no-mmproj-auto'], off: ['--mmproj-auto'], env: '' },
} as const

/** LLM_FFN_EXPS_REGEX and LLM_FFN_DENSE_REGEX of common.h. */
const expertTensors = String.raw`\.ffn_(up|down|gate|gate_up)_(ch|)exps`
const denseTensors = String.raw`\.ffn_(up|down|gate)\.`

/** More layers than any model has. */
const everyLayer = 1 << 20

/**
 * Reads them as llama-server does: the last occurrence wins, a variable counts where no argument is given. `--flag=value` is
 * understood too, though llama-server itself is not known to take it.
 */
export function serverArguments(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
  matches: TensorMatches = noMatches,
): ServerArguments {
  const { values, switched } = read(argv)
  const all = (name: Valued): readonly string[] => {
    const given = values.get(name)
    const fromEnv = env[valued[name].env]
    return given ?? (fromEnv === undefined || fromEnv === '' ? [] : [fromEnv])
  }
  const last = (name: Valued) => all(name).at(-1)
  const number = (name: Valued, otherwise: number) => integer(last(name)) ?? otherwise
  const isOn = (name: Switch, otherwise: boolean) => switched.get(name) ?? truth(env[switches[name].env]) ?? otherwise

  const embeds = isOn('embed', false)
  const microBatch = positive(number('microBatch', 512)) ?? 512
  const batch = positive(number('batch', 2048)) ?? 2048
  const askedSlots = number('slots', -1)
  const isAutomatic = askedSlots < 0
  const slots = isAutomatic ? 4 : Math.max(1, askedSlots)
  const perSlot = Math.max(0, number('perSlot', 0))
  const context = last('context')
  const loadMode = last('loadMode')
  const draft = last('draft')
  const written = overridesIn(all('overrideTensor'))
  const keepsOnCpu = cpuTensors({
    written,
    matches,
    cpuExperts: isOn('cpuExperts', false),
    cpuExpertLayers: number('cpuExpertLayers', 0),
    cpuDenseLayers: number('cpuDenseLayers', 0),
  })
  return {
    contextTokens: context === undefined ? perSlot * slots : Math.max(0, integer(context) ?? 0),
    batch: embeds ? Math.min(batch, microBatch) : batch,
    microBatch: Math.min(batch, microBatch),
    slots,
    isUnified: isAutomatic || isOn('unified', false),
    cacheTypeK: last('cacheTypeK') ?? 'f16',
    cacheTypeV: last('cacheTypeV') ?? 'f16',
    flashAttention: truth(last('flashAttention')) ?? true,
    fullSlidingWindow: isOn('fullSlidingWindow', false),
    offloadsKv: isOn('offloadKv', true),
    gpuLayers: gpuLayers(last('gpuLayers')),
    keepsOnCpu,
    isMapped: loadMode === undefined ? isOn('map', true) : loadMode === 'auto' || loadMode.startsWith('mmap'),
    embeds,
    cacheRam: integer(last('cacheRam')),
    checkpoints: Math.max(0, number('checkpoints', 32)),
    checkpointStep: Math.max(0, number('checkpointStep', 8192)),
    mmproj: isOn('noMmproj', false) ? undefined : last('mmproj'),
    offloadsMmproj: isOn('offloadMmproj', true),
    boundsOutputs: loadMode !== undefined,
    draft:
      draft === undefined
        ? undefined
        : {
            file: draft,
            cacheTypeK: last('draftCacheTypeK') ?? 'f16',
            cacheTypeV: last('draftCacheTypeV') ?? 'f16',
            gpuLayers: gpuLayers(last('draftGpuLayers')),
          },
    adapters: [
      ...all('adapter').flatMap(namesIn),
      ...all('scaledAdapter')
        .flatMap(namesIn)
        .map((name) => name.replace(/:[^:]*$/, '')),
    ],
    headerOverrides: new Map(all('overrideKey').flatMap(namesIn).flatMap(headerOverride)),
    unreadable: [...written].flatMap(([pattern, text]) => (matches.readable.has(pattern) ? [] : [text])),
  }
}

const namesIn = (list: string): string[] => list.split(',').filter((name) => name !== '')

/** `KEY=TYPE:VALUE`, as `string_parse_kv_override` of common.cpp reads it; what it cannot read ends llama-server. */
function headerOverride(text: string): [key: string, value: string | number | boolean][] {
  const [, key, type, value] = /^([^=]+)=(int|float|bool|str):(.*)$/s.exec(text) ?? []
  if (key === undefined || value === undefined) return []
  return [[key, type === 'str' ? value : type === 'bool' ? value === 'true' : Number.parseFloat(value)]]
}

const valuedBy = new Map<string, Valued>(
  entries(valued).flatMap(([name, { flags }]) => flags.map((flag): [string, Valued] => [flag, name])),
)
const switchedBy = new Map<string, readonly [name: Switch, on: boolean]>(
  entries(switches).flatMap(([name, { on, off }]) => [
    ...on.map((flag): [string, readonly [Switch, boolean]] => [flag, [name, true]]),
    ...off.map((flag): [string, readonly [Switch, boolean]] => [flag, [name, false]]),
  ]),
)

function entries<T extends object>(table: T): [keyof T, T[keyof T]][] {
  return Object.entries(table) as [keyof T, T[keyof T]][]
}

function read(argv: readonly string[]) {
  const values = new Map<Valued, string[]>()
  const switched = new Map<Switch, boolean>()
  for (let at = 0; at < argv.length; at++) {
    const [flag, joined] = split(argv[at] ?? '')
    const turned = switchedBy.get(flag)
    if (turned !== undefined) switched.set(...turned)
    const name = valuedBy.get(flag)
    if (name === undefined) continue
    const next = argv[at + 1]
    // Older builds take --flash-attn without a value.
    const isBare = name === 'flashAttention' && joined === undefined && truth(next) === undefined && next !== 'auto'
    if (joined === undefined && !isBare) at++
    const value = isBare ? 'on' : (joined ?? next)
    if (value === undefined) continue
    const before = values.get(name)
    if (before) before.push(value)
    else values.set(name, [value])
  }
  return { values, switched }
}

/** Names of files may hold an equals sign: only what looks like a flag is split. */
function split(argument: string): [flag: string, value?: string] {
  const match = /^(--?[a-z][a-z-]*)=(.*)$/s.exec(argument)
  return match === null ? [argument.replaceAll('_', '-')] : [match[1] ?? '', match[2] ?? '']
}

/** As `std::stoi` reads it, which takes the digits in front of anything else: `8192.9` and `8192k` are 8192. */
const integer = (text: string | undefined): number | undefined => {
  const digits = /^\s*([+-]?\d+)/.exec(text ?? '')?.[1]
  return digits === undefined ? undefined : Number(digits)
}

const positive = (value: number): number | undefined => (value > 0 ? value : undefined)

function truth(text: string | undefined): boolean | undefined {
  if (text === undefined) return undefined
  if (/^(on|enabled|true|1)$/i.test(text)) return true
  return /^(off|disabled|false|0)$/i.test(text) ? false : undefined
}

/** Left to llama-server (`auto`, -1) it takes as many as fit, at best all. */
function gpuLayers(text: string | undefined): number {
  const count = integer(text)
  return count === undefined || count < 0 ? everyLayer : count
}

/** The patterns of `--override-tensor`, each once, which `matches` of {@link serverArguments} is about. */
export function overridePatterns(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
): string[] {
  const fromEnv = env[valued.overrideTensor.env]
  const given = read(argv).values.get('overrideTensor') ?? (fromEnv === undefined || fromEnv === '' ? [] : [fromEnv])
  return [...overridesIn(given).keys()].filter((pattern) => pattern !== '')
}

/** How many different overrides of tensors a command line names, of the model or of its draft model, whichever are more. */
export function overrideCount(argv: readonly string[]): number {
  const { values } = read(argv)
  const lists = [values.get('overrideTensor') ?? [], values.get('draftOverrideTensor') ?? []]
  return Math.max(...lists.map((list) => overridesIn(list).size))
}

/** By pattern, in their order, the first override that is written with it, which alone counts; under no pattern one that lacks it. */
function overridesIn(lists: readonly string[]): ReadonlyMap<string, string> {
  const written = new Map<string, string>()
  for (const text of lists.flatMap((list) => list.split(','))) {
    const pattern = text.slice(0, Math.max(0, text.lastIndexOf('=')))
    if (!written.has(pattern)) written.set(pattern, text)
  }
  return written
}

function cpuTensors(asked: {
  written: ReadonlyMap<string, string>
  matches: TensorMatches
  cpuExperts: boolean
  cpuExpertLayers: number
  cpuDenseLayers: number
}): (tensor: string) => boolean {
  const onCpu = new Map(
    [...asked.written].map(([pattern, text]) => [pattern, /^cpu/i.test(text.slice(pattern.length + 1))]),
  )
  const byLayer = [
    firstLayers(asked.cpuExperts ? Infinity : asked.cpuExpertLayers, expertTensors),
    firstLayers(asked.cpuDenseLayers, denseTensors),
  ]
  return (tensor) => {
    const pattern = asked.matches.deciding.get(tensor)
    return (pattern === undefined ? undefined : onCpu.get(pattern)) ?? byLayer.some((keeps) => keeps(tensor))
  }
}

/** Those tensors of the first layers stay with the CPU. */
function firstLayers(count: number, tensors: string): (tensor: string) => boolean {
  const pattern = new RegExp(`blk\\.(\\d+)${tensors}`)
  return count <= 0 ? () => false : (tensor) => Number(pattern.exec(tensor)?.[1] ?? Infinity) < count
}
