import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { formatBytes } from '../../../contract/format.ts'
import { type Estimate, estimateOf, mebibyte } from './items.ts'
import { entriesUpTo, parseJson, readBounded } from '../../util/files.ts'
import { messageOf } from '../../util/message-of.ts'
import { KeptWorkers, startWorker } from '../../util/worker.ts'

const count = z.number().int().nonnegative()
/** Python would make more layers one by one, until the memory of this machine is used up. */
const maxLayers = 2048

/** What of a model's config.json decides about memory; the names are those of Hugging Face's configurations. */
const textConfig = z.object({
  num_hidden_layers: count.min(1).max(maxLayers),
  hidden_size: count.min(1),
  num_attention_heads: count.min(1),
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  intermediate_size: count.nullish(),
  moe_intermediate_size: count.nullish(),
  num_experts_per_tok: count.nullish(),
  vocab_size: count.nullish(),
  max_position_embeddings: count.nullish(),
  sliding_window: count.nullish(),
  sliding_window_pattern: count.nullish(),
  layer_types: z.array(z.string()).nullish(),
  kv_lora_rank: count.nullish(),
  qk_rope_head_dim: count.nullish(),
  linear_num_value_heads: count.nullish(),
  linear_num_key_heads: count.nullish(),
  linear_key_head_dim: count.nullish(),
  linear_value_head_dim: count.nullish(),
  linear_conv_kernel_dim: count.nullish(),
})

/** Models that see keep the language model's part under a name of its own. */
const config = z.union([z.object({ text_config: textConfig }).transform((whole) => whole.text_config), textConfig])

type TextConfig = z.output<typeof textConfig>

interface MlxInputs {
  /** What config.json holds; undefined where it is missing or no JSON. */
  readonly config: unknown
  /** Size of all tensors, from the headers of the safetensors files. */
  readonly tensorBytes: number
  /** Tokens of one conversation; absent = what the model was trained with. */
  readonly contextTokens?: number
  /** How many conversations at once. */
  readonly slots?: number
  /** The GPU shares the memory of this machine. */
  readonly metal?: boolean
}

/** Bytes of a cached element: mlx-lm caches in the type of the activations, float16 or bfloat16. */
const cached = 2
const float = 4
/** KVCache.step of mlx_lm/models/cache.py: by so many tokens a cache of several conversations is longer than the longest of them. */
const cacheStep = 256
/** prefill_step_size of mlx_lm/generate.py. */
const prefillTokens = 2048
/** Python or Swift with MLX and Metal: assumed. */
const metalBytes = 512 * mebibyte
/** Python with mlx-lm and MLX on the processor, measured on Linux. */
const processorBytes = 96 * mebibyte
/** mlx-lm has no limit of its own, and few conversations reach the length that a model was trained with. */
const assumedContext = 8192
/** Conversations that ended whose caches mlx-lm keeps for the next request of each. */
export const keptPrompts = 2

/**
 * What a server for MLX models will hold. Weights are exact; the cache follows mlx-lm's `BatchKVCache` and `BatchRotatingKVCache`
 * (mlx_lm/models/cache.py) and, for latent attention, deepseek_v3.py. It counts twice: what mlx-lm keeps of a conversation that ended holds the
 * whole batch that it was part of (its `extract` is not evaluated), and it is kept once by {@link keptPrompts}. With ten of them, as is usual,
 * mlx-lm 0.32.2 was seen to hold three times the cache of a batch. Compute is reckoned as for llama.cpp.
 */
export function estimateMlx(inputs: MlxInputs): Estimate {
  const { config: raw, tensorBytes, contextTokens, slots = 1, metal = true } = inputs
  const runtimeBytes = metal ? metalBytes : processorBytes
  const parsed = config.safeParse(raw)
  if (!parsed.success) {
    const overhead = Math.ceil(tensorBytes * 1.2) - tensorBytes + runtimeBytes
    return estimateOf(
      { weights: tensorBytes, kv: 0, compute: 0, promptCache: 0, mmproj: 0, overhead },
      {
        guess:
          'config.json does not describe the structure of the model: a fifth of its size plus 512 MiB is assumed for everything else.',
        notes: [],
        slots,
      },
    )
  }
  const model = parsed.data
  const context = contextTokens ?? Math.min(model.max_position_embeddings ?? assumedContext, assumedContext)
  const kv = slots * mlxCacheBytes(model, context)
  const promptCache = Math.ceil(kv / mebibyte) * mebibyte
  const tokens = Math.min(prefillTokens, context)
  const readIntoWindows = windowedLayers(model) * tokenBytes(model) * tokens
  const used = model.num_experts_per_tok ?? 0
  const feedForward =
    used > 0
      ? used * (3 * (model.moe_intermediate_size ?? model.intermediate_size ?? 0) + model.hidden_size)
      : 3 * (model.intermediate_size ?? 4 * model.hidden_size)
  return estimateOf(
    {
      weights: tensorBytes,
      kv,
      compute:
        slots * readIntoWindows +
        slots * tokens * (5 * model.hidden_size + feedForward) * cached +
        slots * (model.vocab_size ?? 0) * float,
      ...{ promptCache, mmproj: 0 },
      overhead: runtimeBytes,
    },
    {
      guess: 'The compute buffers of MLX and its own memory are assumed, not measured.',
      notes: [],
      gpuBytes: tensorBytes + kv + promptCache,
      cacheRamThatHolds: promptCache / mebibyte,
      contextTokens: context,
      slots,
    },
  )
}

/** Size of one conversation's cache. */
function mlxCacheBytes(model: TextConfig, contextTokens: number): number {
  const whole = contextTokens + cacheStep
  const windowed = Math.min(whole, model.sliding_window ?? whole)
  let bytes = 0
  for (let layer = 0; layer < model.num_hidden_layers; layer++) {
    const kind = kindOf(model, layer)
    bytes += kind === 'linear' ? stateBytes(model) : tokenBytes(model) * (kind === 'windowed' ? windowed : whole)
  }
  return bytes
}

/** Their caches hold all tokens that are read at once, until the first one is generated. */
const windowedLayers = (model: TextConfig): number =>
  Array.from({ length: model.num_hidden_layers }, (_, layer) => kindOf(model, layer)).filter(
    (kind) => kind === 'windowed',
  ).length

function kindOf({ layer_types, sliding_window, sliding_window_pattern }: TextConfig, layer: number) {
  const named = layer_types?.[layer]
  if (named === 'linear_attention') return 'linear'
  if (named !== undefined) return named === 'sliding_attention' ? 'windowed' : 'full'
  const isWindowed =
    typeof sliding_window === 'number' && !!sliding_window_pattern && (layer + 1) % sliding_window_pattern !== 0
  return isWindowed ? 'windowed' : 'full'
}

/** Size of one token's cache in one layer. */
function tokenBytes(model: TextConfig): number {
  // Latent attention keeps the compressed values and the rotated part of the keys, for all heads together.
  if (model.kv_lora_rank) return (model.kv_lora_rank + (model.qk_rope_head_dim ?? 0)) * cached
  const length = model.head_dim ?? Math.floor(model.hidden_size / model.num_attention_heads)
  return 2 * (model.num_key_value_heads ?? model.num_attention_heads) * length * cached
}

/** Size of a gated delta net's state (mlx_lm/models/qwen3_next.py): the state in float32, and the inputs its convolution looks back at. */
function stateBytes(model: TextConfig): number {
  const keys = (model.linear_num_key_heads ?? 0) * (model.linear_key_head_dim ?? 0)
  const values = (model.linear_num_value_heads ?? 0) * (model.linear_value_head_dim ?? 0)
  const state = values * (model.linear_key_head_dim ?? 0) * float
  return state + Math.max(0, (model.linear_conv_kernel_dim ?? 0) - 1) * (2 * keys + values) * cached
}

/** The most that the headers of all files of a model may have together: those of the largest models stay below 20 MB. */
const maxHeaderBytes = 64 * 1024 ** 2
/** A longer header is read in a thread of its own: JSON that is made to be slow takes a second for each MiB. */
const ownTurnBytes = 256 * 1024
/** Several times what the longest header leaves behind. */
const heapMiB = 1_024
/** As many as a listing may have. */
const maxEntries = 20_000

const headerReaders = new KeptWorkers(() =>
  startWorker(new URL('./safetensors-header-worker.ts', import.meta.url), { heapMiB }),
)

const tensors = z.record(
  z.string(),
  z.looseObject({ data_offsets: z.tuple([z.number().int().nonnegative(), z.number().int().nonnegative()]).optional() }),
)

/** Where the last tensor ends that a safetensors header names; undefined where it is no such header. */
export function tensorsEnd(header: Uint8Array): number | undefined {
  const { data } = tensors.safeParse(parseJson(Buffer.from(header).toString('utf8')))
  if (data === undefined) return undefined
  return Object.values(data).reduce((end, { data_offsets }) => Math.max(end, data_offsets?.[1] ?? 0), 0)
}

async function tensorsEndInTurn(header: Uint8Array): Promise<number | undefined> {
  if (header.length <= ownTurnBytes) return tensorsEnd(header)
  return z
    .number()
    .optional()
    .parse(await headerReaders.ask(header))
}

/** A folder that is no model, in one sentence. */
export class MlxFolderError extends Error {
  override readonly name = 'MlxFolderError'
}

/** Reads what an estimate needs of a folder with config.json and safetensors files. Throws MlxFolderError. */
export async function readMlxFolder(folder: string): Promise<Pick<MlxInputs, 'config' | 'tensorBytes'>> {
  const entries = await entriesUpTo(folder, maxEntries).catch((cause: unknown) => {
    throw new MlxFolderError(`${folder} cannot be read: ${messageOf(cause)}.`, {
      cause,
    })
  })
  if (entries === undefined) {
    throw new MlxFolderError(`${folder} holds more than ${maxEntries} files: put the model in a folder of its own.`)
  }
  const files = entries.map(({ name }) => name).filter((name) => name.endsWith('.safetensors'))
  if (files.length === 0) {
    throw new MlxFolderError(`${folder} holds no safetensors files: give the folder of an MLX model, or a GGUF file.`)
  }
  // Without one, or with one that is no JSON, the estimate is a guess and says so.
  const config = parseJson((await configText(folder)) ?? '')
  const problem = configProblem(config)
  if (problem !== undefined) throw new MlxFolderError(`${path.join(folder, 'config.json')} ${problem}`)
  let [tensorBytes, headerBytes] = [0, 0]
  for (const file of files.sort()) {
    const read = await readSafetensors(path.join(folder, file), maxHeaderBytes - headerBytes)
    tensorBytes += read.tensorBytes
    headerBytes += read.headerBytes
  }
  return { config, tensorBytes }
}

/** A safetensors file: the length of its header in eight bytes, the header in JSON, and the tensors at its offsets. */
async function readSafetensors(file: string, maxBytes: number) {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK).catch((cause: unknown) => {
    throw new MlxFolderError(`${file} cannot be read: ${messageOf(cause)}.`, { cause })
  })
  const broken = (why: string, cause?: unknown) =>
    new MlxFolderError(`${file} is not a safetensors file: ${why}. Fetch it again.`, { cause })
  const found = await handle.stat()
  if (!found.isFile()) throw broken('it is not a regular file')
  const { size } = found
  const length = Buffer.alloc(8)
  await handle.read(length, 0, 8, 0)
  const headerBytes = Number(length.readBigUInt64LE())
  if (size < 8 || headerBytes > size - 8) throw broken('it is too short for its header')
  if (headerBytes > maxBytes) {
    throw broken(
      `its header has ${formatBytes(headerBytes)}, and those of a model at most ${formatBytes(maxHeaderBytes)} together`,
    )
  }
  const text = Buffer.alloc(headerBytes)
  await handle.read(text, 0, headerBytes, 8)
  const tensorBytes = await tensorsEndInTurn(text).catch((cause: unknown) => {
    throw broken('its header cannot be read', cause)
  })
  if (tensorBytes === undefined) throw broken('its header cannot be read')
  const whole = 8 + headerBytes + tensorBytes
  if (whole > size) throw broken(`it has ${size} bytes of ${whole}`)
  return { tensorBytes, headerBytes }
}

const layerCounts = new Set(['num_hidden_layers', 'num_layers', 'n_layers', 'n_layer'])
/** The dimensions of MLX are 32-bit integers. */
const maxDimension = 2 ** 31 - 1
/** No configuration is nested deeper, and Python gives up far later. */
const maxDepth = 64

/**
 * What no model says of itself in config.json: a number that overflows, a size below zero or beyond any, too many layers. Completes the
 * file's name to a sentence. A size that is missing, or no number, is none of it: some models have a list in its place.
 */
export function configProblem(raw: unknown): string | undefined {
  const rest: { readonly value: unknown; readonly key: string; readonly depth: number }[] = [
    { value: raw, key: '', depth: 0 },
  ]
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    const { value, key, depth } = next
    if (depth > maxDepth) return `is nested deeper than ${maxDepth} levels: use another model.`
    if (typeof value === 'number' && isImpossible(key, value)) {
      return `says ${value} for ${key.slice(0, 100)}, which no model has: fetch the model again, or use another one.`
    }
    if (typeof value !== 'object' || value === null) continue
    for (const [name, inner] of Object.entries(value)) {
      rest.push({ value: inner, key: Array.isArray(value) ? key : name, depth: depth + 1 })
    }
  }
  return undefined
}

function isImpossible(key: string, value: number): boolean {
  if (!Number.isFinite(value)) return true
  if (layerCounts.has(key)) return !(Number.isInteger(value) && value >= 0 && value <= maxLayers)
  // Below zero stands for no window.
  const least = key.startsWith('sliding_window') ? -1 : 0
  return key in textConfig.shape && !(Number.isInteger(value) && value >= least && value <= maxDimension)
}

/** The config.json of the largest models has a few KiB. */
export const maxConfigBytes = 1024 ** 2

/** The text of a model's config.json; undefined where it cannot be read, or is larger than {@link maxConfigBytes}. */
export async function configText(folder: string): Promise<string | undefined> {
  const bytes = await readBounded(path.join(folder, 'config.json'), maxConfigBytes).catch(() => undefined)
  return bytes?.toString('utf8')
}
