import { type Estimate, estimateOf, mebibyte } from './items.ts'
import { type CacheSize, cacheSize, cacheType, microBatchOf, promptCacheSize } from './kv-cache.ts'
import { type HeaderTensor, type ModelHeader, type ModelShape, shapeOf } from './model-shape.ts'
import { type ServerArguments, serverArguments, type TensorMatches } from './server-arguments.ts'
import { formatBytes, formatCount } from '../../../contract/format.ts'

interface WeightsSize {
  readonly bytes: number
  readonly gpuBytes: number
  /** Weights that the GPU could hold but that arguments keep with the CPU; not in `gpuBytes`. */
  readonly keptFromGpuBytes: number
}

interface WeightFiles {
  /** Size of all files together. */
  readonly fileBytes: number
  /** Tensors of all files, or of the first one if only its header was read; empty without a header. */
  readonly tensors: readonly HeaderTensor[]
  /** Whether `tensors` are those of all files. */
  readonly isComplete: boolean
  readonly blocks: number
}

/**
 * What the tensors take, and which of them go to the GPU: the last `--n-gpu-layers` of blocks and output, never the input
 * (`llama_model_base::load_tensors`), without those that overrides keep with the CPU.
 */
function weightsSize(files: WeightFiles, server: ServerArguments, hasGpu: boolean): WeightsSize {
  const { tensors, isComplete, blocks, fileBytes } = files
  const known = tensors.reduce((sum, { bytes }) => sum + bytes, 0)
  const firstOnGpu = Math.max(blocks + 1 - server.gpuLayers, 0)
  const isOnGpu = (name: string) => layerOf(name, blocks) >= firstOnGpu
  const sum = (of: (name: string) => boolean) =>
    tensors.reduce((total, { name, bytes }) => total + (of(name) ? bytes : 0), 0)

  // Without an output of its own a model uses its input for that; unless the file is mapped, as a second copy.
  const input = tensors.find(({ name }) => name === inputTensor)?.bytes ?? 0
  const output = tensors.some(({ name }) => name === outputTensor) || firstOnGpu > blocks ? 0 : input
  const copied = hasGpu && isComplete && !server.isMapped ? output : 0
  const bytes = (isComplete && known > 0 ? known : Math.max(known, fileBytes)) + copied
  if (!hasGpu) return { bytes, gpuBytes: 0, keptFromGpuBytes: 0 }
  const kept = sum((name) => isOnGpu(name) && server.keepsOnCpu(name))
  const onGpu = sum((name) => isOnGpu(name) && !server.keepsOnCpu(name)) + output
  // The tensors of other files are taken to be spread as those of the first.
  const scale = isComplete || known === 0 ? 1 : bytes / known
  return {
    bytes,
    gpuBytes: known === 0 ? bytes : Math.min(bytes, onGpu * scale),
    keptFromGpuBytes: kept * scale,
  }
}

const inputTensor = 'token_embd.weight'
const outputTensor = 'output.weight'

/** The tensors of each layer as one, which is all that {@link weightsSize} tells apart where no argument overrides single ones. */
export function mergedTensors(tensors: readonly HeaderTensor[]): readonly HeaderTensor[] {
  const merged = new Map<string, { name: string; dimensions: readonly number[]; bytes: number }>()
  for (const { name: own, dimensions, bytes } of tensors) {
    const name = mergedName(own)
    const known = merged.get(name)
    if (known) known.bytes += bytes
    else merged.set(name, { name, dimensions, bytes })
  }
  return [...merged.values()]
}

/** Beyond the blocks of any model, all are alike. */
const lastBlock = 1_000

function mergedName(name: string): string {
  if (name === inputTensor || name === outputTensor) return name
  const layer = layerOf(name, lastBlock)
  if (layer < 0) return 'input'
  return name.startsWith('output') ? 'output' : `blk.${Math.min(layer, lastBlock)}.`
}

/** The block's number; the output comes after the last, the input before the first. */
function layerOf(name: string, blocks: number): number {
  const block = /^blk\.(\d+)\./.exec(name)?.[1]
  if (block !== undefined) return Number(block)
  return name.startsWith('output') ? blocks : -1
}

const float = 4
const half = 2

/**
 * What llama.cpp reserves for the largest graph, and for its outputs. Its allocator reuses what is free again, so the largest
 * stage decides: a stage's tensors of one micro-batch, besides the attention masks. How many of which width live at once was
 * measured with llama-server 11434 (`compute buffer size` in its log; test/agent/estimate.long.test.ts holds it against that).
 */
export function computeBytes(shape: ModelShape, server: ServerArguments, cache: CacheSize): number {
  const tokens = microBatchOf(server, cache.contextTokens)
  const outputs = server.embeds ? tokens : server.boundsOutputs ? Math.min(tokens, server.slots) : tokens
  const logits = outputs * shape.vocabulary * float
  const token = tokens * float
  const stages = [
    5 * token * shape.embedding + Math.max(feedForwardBytes(shape, token), logits),
    attentionBytes(shape, server, cache, tokens),
    recurrentBytes(shape, token),
  ]
  return maskBytes(shape, server, cache, tokens) + Math.max(...stages) + server.slots * shape.vocabulary * float
}

/**
 * Gate, up and their product. Experts answer one by one: the answers of all take the place of gate and up where those are wide
 * enough, else they need room of their own, unless even all three find room among what else is free.
 */
function feedForwardBytes({ feedForward, experts, embedding }: ModelShape, token: number): number {
  const dense = 3 * token * feedForward
  if (experts === undefined) return dense
  const width = experts.used * experts.feedForward
  const answers = experts.used * embedding
  if (width <= embedding) return token * answers
  return token * (3 * width + (2 * width < answers ? answers : 0))
}

/** Queries thrice (made, rotated, answered), keys and values; without flash attention also every head's scores of every cell. */
function attentionBytes(shape: ModelShape, server: ServerArguments, cache: CacheSize, tokens: number): number {
  const token = tokens * float
  const kv = Math.max(...shape.layers.map(({ keyElements }) => keyElements))
  if (server.flashAttention) return token * (3 * shape.queryElements + 2.5 * kv + 2 * shape.embedding)
  const cells = shape.layers.every(({ isWindowed }) => isWindowed) ? cache.cells.windowed : cache.cells.full
  return token * (3 * shape.queryElements + 2 * kv + 3 * shape.embedding) + token * shape.heads * cells
}

/** One for the layers that attend to everything and one for those with a window: a number for each token and cell. */
function maskBytes(
  { layers, hasCache }: ModelShape,
  server: ServerArguments,
  { cells }: CacheSize,
  tokens: number,
): number {
  const element = server.flashAttention ? half : float
  const attending = layers.filter(({ keyElements }) => keyElements > 0)
  if (!hasCache) return tokens * tokens * element
  const full = attending.some(({ isWindowed }) => !isWindowed) ? cells.full : 0
  const windowed = attending.some(({ isWindowed }) => isWindowed) ? cells.windowed : 0
  return tokens * (full + windowed) * element
}

/** Input, convolution and scan of a recurrent layer: an upper bound, not measured yet. */
const recurrentBytes = ({ recurrentElements, embedding }: ModelShape, token: number): number =>
  recurrentElements === 0 ? 0 : token * (8 * recurrentElements + 3 * embedding)

/** A model file that is loaded beside the model: one that turns pictures or sound into tokens, or one that drafts. */
export interface SideModel {
  /** Bytes of all its parts. */
  readonly fileBytes: number
  /** The header of its first part; absent where it could not be read. */
  readonly header?: ModelHeader
}

/** Without its header; a common vision tower with flash attention is below that. */
const assumedCompute = 256 * 1024 ** 2

/**
 * Its weights, and the buffers for one picture of its own size: per patch five widths of the model and three of its feed-forward layers, as
 * with text. That is not measured yet; pictures of other sizes may take more.
 */
function projectorBytes({ fileBytes, header }: SideModel): number {
  const number = (key: string) => {
    const value = header?.metadata.get(`clip.vision.${key}`)
    return typeof value === 'number' && value > 0 ? value : undefined
  }
  const [image, patch, embedding] = [number('image_size'), number('patch_size'), number('embedding_length')]
  if (image === undefined || patch === undefined || embedding === undefined) return fileBytes + assumedCompute
  const patches = Math.ceil(image / patch) ** 2
  const width = 5 * embedding + 3 * (number('feed_forward_length') ?? 4 * embedding)
  return fileBytes + patches * width * float + patches * patches * (number('attention.head_count') ?? 16) * float
}

export interface LlamaServerInputs {
  /** Header of the model's first file; undefined if it could not be read. */
  readonly header: ModelHeader | undefined
  /** Size of all files of the model together. */
  readonly fileBytes: number
  /** Headers of the model's other files, where they were read. */
  readonly shards?: readonly ModelHeader[]
  /** Everything llama-server is started with: whatever comes last wins, as it does there. */
  readonly argv: readonly string[]
  /** Variables it is started with: those that stand for arguments count where no argument says otherwise. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** What the patterns of `--override-tensor` say about the tensors of all headers; absent = none of them can be read. */
  readonly matches?: TensorMatches
  readonly mmproj?: SideModel
  /** The file that `--model-draft` names; absent where it could not be looked at. */
  readonly draft?: SideModel
  /** Bytes of all adapters and control vectors that could be looked at. */
  readonly adapterBytes?: number
  /** Files that arguments name and that could not be looked at. */
  readonly unseen?: readonly string[]
  /** What LLMKube's controller wrote to `Model.status.gguf`: helps where the header is missing. */
  readonly status?: { readonly layerCount?: number; readonly embeddingSize?: number }
  readonly host: { /** The GPU shares the machine's memory. */ readonly metal: boolean }
}

/** The server itself with its threads, buffers and log: 14 MB measured for 11434 on Linux. */
const serverBytes = 32 * mebibyte
/** Metal's compiled kernels and queues: assumed. */
const metalBytes = 128 * mebibyte
/** Memory for each token of the vocabulary; 180 measured. */
const tokenBytes = 256

/**
 * What llama-server will hold once it serves, from the model's header and the arguments it is started with. Throws RangeError
 * where the header's numbers cannot be right.
 */
export function estimateLlamaServer(inputs: LlamaServerInputs): Estimate {
  const server = serverArguments(inputs.argv, inputs.env, inputs.matches)
  const header = inputs.header && withOverrides(inputs.header, server.headerOverrides)
  const shape = header && shapeOf(header)
  if (header === undefined || shape === undefined) return withoutHeader(inputs, server)
  const { host, shards = [] } = inputs

  const isSplit = (header.metadata.get('split.count') ?? 1) !== 1
  const isComplete = !isSplit || shards.length > 0
  const tensors = [header, ...shards].flatMap((one) => one.tensors)
  const weights = weightsSize({ ...inputs, tensors, isComplete, blocks: shape.blocks }, server, host.metal)
  const cache = cacheSize(shape, server)
  const compute = computeBytes(shape, server, cache)
  const draft = draftSize(inputs, server, cache)
  const prompts = promptCacheSize(server, draft ? together(cache, draft.cache) : cache)
  const mmproj = inputs.mmproj === undefined ? 0 : projectorBytes(inputs.mmproj)
  const kv = cache.attentionBytes + cache.stateBytes

  const assumed = [...shape.assumptions, ...(draft?.assumed ?? []), ...assumptionsAbout(server, inputs)]
  return estimateOf(
    {
      weights: weights.bytes,
      kv,
      compute,
      promptCache: prompts.bytes,
      mmproj,
      ...(draft && { draft: draft.bytes }),
      ...(inputs.adapterBytes !== undefined && { adapters: inputs.adapterBytes }),
      overhead: serverBytes + shape.vocabulary * tokenBytes + (host.metal ? metalBytes : 0),
    },
    {
      ...(assumed.length > 0 && { guess: assumed.join(' ') }),
      notes: [...notesAbout(shape, server, weights.keptFromGpuBytes, kv), ...prompts.notes],
      ...(host.metal &&
        weights.gpuBytes > 0 && {
          gpuBytes: Math.ceil(
            weights.gpuBytes +
              (server.offloadsKv ? kv : 0) +
              compute +
              (server.offloadsMmproj ? mmproj : 0) +
              (draft?.gpuBytes ?? 0) +
              (inputs.adapterBytes ?? 0),
          ),
        }),
      contextTokens: cache.contextTokens,
      slots: server.slots,
      ...mapping(server, weights.bytes),
      ...(prompts.cacheRamThatHolds !== undefined && { cacheRamThatHolds: prompts.cacheRamThatHolds }),
    },
  )
}

/** A header as llama-server reads it with `--override-kv`, by which a spec could ask for a longer context or a wider window. */
function withOverrides(header: ModelHeader, overrides: ServerArguments['headerOverrides']): ModelHeader {
  return overrides.size === 0 ? header : { ...header, metadata: new Map([...header.metadata, ...overrides]) }
}

interface DraftSize {
  readonly bytes: number
  readonly gpuBytes: number
  /** Nothing is known of it without a header. */
  readonly cache: CacheSize | undefined
  readonly assumed: readonly string[]
}

/**
 * A draft model has weights, a cache of the same context and slots in types of its own, compute buffers and tables, as llama-server 11434
 * says in its log; `--override-kv` is not for it.
 */
function draftSize(
  { draft, host }: LlamaServerInputs,
  server: ServerArguments,
  main: CacheSize,
): DraftSize | undefined {
  const { draft: asked } = server
  if (draft === undefined || asked === undefined) return undefined
  const { header, fileBytes } = draft
  const shape = header && shapeOf(header)
  if (header === undefined || shape === undefined) {
    const bytes = withoutHeaderBytes(fileBytes)
    const assumed = [
      'The header of the draft model could not be read: a fifth of its size plus 512 MiB is assumed for everything else.',
    ]
    return { bytes, gpuBytes: host.metal ? bytes : 0, cache: undefined, assumed }
  }
  const { cacheTypeK, cacheTypeV, gpuLayers } = asked
  const own = { ...server, cacheTypeK, cacheTypeV, gpuLayers, overrides: [], contextTokens: main.contextTokens }
  const isComplete = (header.metadata.get('split.count') ?? 1) === 1
  const weights = weightsSize({ tensors: header.tensors, fileBytes, isComplete, blocks: shape.blocks }, own, host.metal)
  const cache = cacheSize(shape, own)
  const compute = computeBytes(shape, own, cache)
  const kv = cache.attentionBytes + cache.stateBytes
  return {
    bytes: weights.bytes + kv + compute + shape.vocabulary * tokenBytes,
    gpuBytes: host.metal && weights.gpuBytes > 0 ? weights.gpuBytes + (server.offloadsKv ? kv : 0) + compute : 0,
    cache,
    assumed: shape.assumptions,
  }
}

/** A saved conversation has the states of both models. */
const together = (one: CacheSize, other: CacheSize | undefined): CacheSize =>
  other === undefined
    ? one
    : {
        ...one,
        attentionBytes: one.attentionBytes + other.attentionBytes,
        stateBytes: one.stateBytes + other.stateBytes,
        checkpointBytes: one.checkpointBytes + other.checkpointBytes,
      }

function assumptionsAbout(server: ServerArguments, { mmproj, unseen = [] }: LlamaServerInputs): string[] {
  const { draft } = server
  const types = [server.cacheTypeK, server.cacheTypeV, ...(draft ? [draft.cacheTypeK, draft.cacheTypeV] : [])]
  const unknown = types.filter((name) => cacheType(name).isUnknown)
  return [
    ...[...new Set(unknown)].map((name) => `The size of the cache type ${name} is not known, so it is counted as f16.`),
    ...(unseen.length > 0 ? [`Not counted, because it cannot be read: ${unseen.join(', ')}.`] : []),
    ...(server.unreadable[0] === undefined ? [] : [unreadableOverrides(server.unreadable)]),
    ...(server.mmproj !== undefined && mmproj === undefined
      ? ['The projector is not counted: its file was not read.']
      : []),
  ]
}

/** A person finds the others when the first is corrected. */
function unreadableOverrides([first = '', ...others]: readonly string[]): string {
  const shown = first.length > 60 ? `${first.slice(0, 60)}…` : first
  const more = others.length === 0 ? '' : ` and ${formatCount(others.length)} more`
  return `The tensor override ${shown}${more} cannot be read and is not counted.`
}

function notesAbout(shape: ModelShape, server: ServerArguments, keptFromGpuBytes: number, kvBytes: number): string[] {
  const inMemory = 'on a Mac that frees nothing, but it does not count against the limit of the GPU'
  return [
    ...(keptFromGpuBytes > 0
      ? [`${formatBytes(keptFromGpuBytes)} of the weights stay with the CPU: ${inMemory}.`]
      : []),
    ...(!server.offloadsKv && kvBytes > 0 ? [`The KV cache stays with the CPU: ${inMemory}.`] : []),
    ...(server.contextTokens > shape.trainedContext && shape.trainedContext > 0
      ? [
          `The context of ${formatCount(server.contextTokens)} tokens is longer than the ${formatCount(shape.trainedContext)} the model was trained with.`,
        ]
      : []),
  ]
}

const mapping = ({ isMapped }: ServerArguments, weights: number) => (isMapped ? { mappedBytes: weights } : {})

/** The context where none is set and no header tells what the model was trained with. */
const assumedContext = 2048
const goOverhead = 512 * mebibyte
const withoutHeaderBytes = (fileBytes: number): number => Math.ceil(fileBytes * 1.2) + goOverhead

/** As LLMKube's Go agent estimates: see metal-agent's `EstimateModelMemory`. */
function withoutHeader(inputs: LlamaServerInputs, server: ServerArguments): Estimate {
  const { header, fileBytes, status, mmproj, draft, adapterBytes } = inputs
  const layers = status?.layerCount ?? 0
  const embedding = status?.embeddingSize ?? 0
  const context = server.contextTokens === 0 ? assumedContext : server.contextTokens
  const perElement = cacheType(server.cacheTypeK).bytes + cacheType(server.cacheTypeV).bytes
  const kv = Math.ceil(layers * embedding * context * perElement)
  const projector = mmproj === undefined ? 0 : projectorBytes(mmproj)
  const why =
    header === undefined
      ? 'The header of the model could not be read'
      : 'The header of the model does not describe its structure'
  const items = {
    ...{ weights: fileBytes, compute: 0, promptCache: 0, mmproj: projector },
    ...(draft && { draft: withoutHeaderBytes(draft.fileBytes) }),
    ...(adapterBytes !== undefined && { adapters: adapterBytes }),
  }
  if (kv > 0 && Number.isSafeInteger(kv)) {
    return estimateOf(
      { ...items, kv, overhead: goOverhead },
      {
        guess: `${why}: the cache is estimated only from layers and width, which may be up to eight times too much.`,
        notes: [],
        contextTokens: context,
        slots: server.slots,
        ...mapping(server, fileBytes),
      },
    )
  }
  return estimateOf(
    { ...items, kv: 0, overhead: withoutHeaderBytes(fileBytes) - fileBytes },
    {
      guess: `${why}: a fifth of its size plus 512 MiB is assumed for everything else.`,
      notes: [],
      slots: server.slots,
      ...mapping(server, fileBytes),
    },
  )
}
