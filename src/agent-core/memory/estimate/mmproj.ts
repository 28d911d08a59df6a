import type { ModelHeader } from './model-shape.ts'

/** A model file that is loaded beside the model: one that turns pictures or sound into tokens, or one that drafts. */
export interface SideModel {
  /** Bytes of all its parts. */
  readonly fileBytes: number
  /** The header of its first part; absent where it could not be read. */
  readonly header?: ModelHeader
}

const float = 4
/** Without its header; a common vision tower with flash attention is below that. */
const assumedCompute = 256 * 1024 ** 2

/**
 * Its weights, and the buffers for one picture of its own size: per patch five widths of the model and three of its feed-forward layers, as
 * with text. That is not measured yet; pictures of other sizes may take more.
 */
export function projectorBytes({ fileBytes, header }: SideModel): number {
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
