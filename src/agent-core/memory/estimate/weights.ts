import type { HeaderTensor } from './model-shape.ts'
import type { ServerArguments } from './server-arguments.ts'

export interface WeightsSize {
  readonly bytes: number
  readonly gpuBytes: number
  /** Of these, blocks that the GPU could hold but that arguments keep with the CPU. */
  readonly keptFromGpuBytes: number
}

export interface WeightFiles {
  /** Of all files together. */
  readonly fileBytes: number
  /** Of all files, or of the first where only its header was read; empty without a header. */
  readonly tensors: readonly HeaderTensor[]
  /** Whether `tensors` are those of all files. */
  readonly isComplete: boolean
  readonly blocks: number
}

/**
 * What the tensors take, and which of them go to the GPU: the last `--n-gpu-layers` of blocks and output, never the input
 * (`llama_model_base::load_tensors`), without those that overrides keep with the CPU.
 */
export function weightsSize(files: WeightFiles, server: ServerArguments, hasGpu: boolean): WeightsSize {
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
