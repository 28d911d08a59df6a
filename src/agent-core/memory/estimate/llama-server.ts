import { formatBytes, formatCount } from '../../../contract/format.ts'
import { cacheType } from './cache-types.ts'
import { computeBytes } from './compute-buffers.ts'
import { type Estimate, estimateOf, mebibyte } from './items.ts'
import { type CacheSize, cacheSize } from './kv-cache.ts'
import { projectorBytes, type SideModel } from './mmproj.ts'
import { type ModelHeader, type ModelShape, shapeOf } from './model-shape.ts'
import { promptCacheSize } from './prompt-cache.ts'
import { type ServerArguments, serverArguments } from './server-arguments.ts'
import type { TensorMatches } from './tensor-patterns.ts'
import { weightsSize } from './weights.ts'

export interface LlamaServerInputs {
  /** Of the model's first file; undefined where it could not be read. */
  readonly header: ModelHeader | undefined
  /** Of all files of the model together. */
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
/** Of the vocabulary's tables; 180 measured. */
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
      'The header of the draft model could not be read: a fifth of its size and 512 MiB stand for all else.',
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
    ...[...new Set(unknown)].map((name) => `Nobody says how large the cache type ${name} is: it is counted as f16.`),
    ...(unseen.length > 0 ? [`Not counted is what cannot be looked at: ${unseen.join(', ')}.`] : []),
    ...(server.unreadable[0] === undefined ? [] : [unreadableOverrides(server.unreadable)]),
    ...(server.mmproj !== undefined && mmproj === undefined
      ? ['The projector is not counted: its file was not looked at.']
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
      : 'The header of the model does not say what it is made of'
  const items = {
    ...{ weights: fileBytes, compute: 0, promptCache: 0, mmproj: projector },
    ...(draft && { draft: withoutHeaderBytes(draft.fileBytes) }),
    ...(adapterBytes !== undefined && { adapters: adapterBytes }),
  }
  if (kv > 0 && Number.isSafeInteger(kv)) {
    return estimateOf(
      { ...items, kv, overhead: goOverhead },
      {
        guess: `${why}: the cache is reckoned from layers and width alone, which is up to eight times too much.`,
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
      guess: `${why}: a fifth of its size and 512 MiB stand for all else.`,
      notes: [],
      slots: server.slots,
      ...mapping(server, fileBytes),
    },
  )
}
