import type { ModelHeader } from '../../../src/agent-core/memory/estimate/model-shape.ts'

type Value = number | string | boolean | readonly (number | string | boolean)[]

/** A header of one architecture whose keys are given without its name. */
export function headerWith(
  architecture: string,
  keys: Readonly<Record<string, Value>>,
  tensors: Readonly<Record<string, number>> = {},
): ModelHeader {
  return {
    metadata: new Map<string, Value>([
      ['general.architecture', architecture],
      ...Object.entries(keys).map(([key, value]): [string, Value] => [
        /^(split|tokenizer)\./.test(key) ? key : `${architecture}.${key}`,
        value,
      ]),
    ]),
    vocabulary: 1000,
    tensors: Object.entries(tensors).map(([name, bytes]) => ({ name, dimensions: [bytes], bytes })),
  }
}
