import { ModelError } from './errors.ts'
import { contentKindOf, formatContradiction } from './gguf/content-kind.ts'
import { firstBytes } from './local-file.ts'

/** The refusal of a file that begins as one of another format than the Model says. */
export function formatMismatch(start: Uint8Array, format = 'gguf'): ModelError | undefined {
  const problem = formatContradiction(format, contentKindOf(start))
  return problem === undefined ? undefined : new ModelError('terminal', 'FormatMismatch', problem)
}

/** Throws `FormatMismatch` where the file is of another format than the Model says. */
export async function requireFormat(path: string, format: string | undefined): Promise<void> {
  const problem = formatMismatch(await firstBytes(path), format)
  if (problem) throw problem
}
