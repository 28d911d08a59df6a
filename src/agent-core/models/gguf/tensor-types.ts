/** Name, values per block, bytes per block. */
type TensorType = readonly [name: string, blockValues: number, blockBytes: number]

/** `enum ggml_type` of llama.cpp's ggml.h with the sizes of its ggml-common.h; 4, 5 and 36 to 38 were removed without a trace. */
const tensorTypes: Readonly<Record<number, TensorType>> = {
  0: ['F32', 1, 4],
  1: ['F16', 1, 2],
  2: ['Q4_0', 32, 18],
  3: ['Q4_1', 32, 20],
  6: ['Q5_0', 32, 22],
  7: ['Q5_1', 32, 24],
  8: ['Q8_0', 32, 34],
  9: ['Q8_1', 32, 36],
  10: ['Q2_K', 256, 84],
  11: ['Q3_K', 256, 110],
  12: ['Q4_K', 256, 144],
  13: ['Q5_K', 256, 176],
  14: ['Q6_K', 256, 210],
  15: ['Q8_K', 256, 292],
  16: ['IQ2_XXS', 256, 66],
  17: ['IQ2_XS', 256, 74],
  18: ['IQ3_XXS', 256, 98],
  19: ['IQ1_S', 256, 50],
  20: ['IQ4_NL', 32, 18],
  21: ['IQ3_S', 256, 110],
  22: ['IQ2_S', 256, 82],
  23: ['IQ4_XS', 256, 136],
  24: ['I8', 1, 1],
  25: ['I16', 1, 2],
  26: ['I32', 1, 4],
  27: ['I64', 1, 8],
  28: ['F64', 1, 8],
  29: ['IQ1_M', 256, 56],
  30: ['BF16', 1, 2],
  31: ['Q4_0_4_4', 32, 18],
  32: ['Q4_0_4_8', 32, 18],
  33: ['Q4_0_8_8', 32, 18],
  34: ['TQ1_0', 256, 54],
  35: ['TQ2_0', 256, 66],
  39: ['MXFP4', 32, 17],
  40: ['NVFP4', 64, 36],
  41: ['Q1_0', 128, 18],
  42: ['Q2_0', 64, 18],
}

/** A type this version does not know is named by its number. */
export const tensorTypeName = (type: number): string => tensorTypes[type]?.[0] ?? `type ${type}`

/**
 * Bytes of a tensor without the padding after it. Undefined for a type we do not know; NaN where the dimensions cannot
 * be those of a tensor of this type (rows of broken blocks, more than can be counted).
 */
export function tensorBytes(type: number, dimensions: readonly number[]): number | undefined {
  const known = tensorTypes[type]
  if (known === undefined) return undefined
  const [, blockValues, blockBytes] = known
  if ((dimensions[0] ?? 1) % blockValues !== 0) return NaN
  const bytes = dimensions.reduce((product, dimension) => product * dimension, 1 / blockValues) * blockBytes
  return Number.isSafeInteger(bytes) ? bytes : NaN
}
