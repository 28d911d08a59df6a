import { createHash } from 'node:crypto'
import { parseModelSource, sourceDigest } from './source.ts'

/** What of a Model's spec says which bytes are meant. */
export interface Selection {
  readonly source: string
  readonly format?: string | undefined
  readonly quantization?: string | undefined
  readonly files?: readonly string[] | undefined
  readonly mmproj?: string | undefined
}

/** Tells what is wanted apart (hex SHA-256). For a source that names one file and asks for nothing beside it, that of the source. */
export function wantedDigest({
  source,
  format = 'gguf',
  quantization = '',
  files = [],
  mmproj = '',
}: Selection): string {
  const digest = sourceDigest(source)
  // There format and quantization choose among files; elsewhere they only describe.
  const isRepository = parseModelSource(source).kind === 'hub'
  const chosen = isRepository ? [format === 'gguf' ? '' : format, quantization] : ['', '']
  if ([...chosen, ...files, mmproj].every((part) => part === '')) return digest
  return createHash('sha256')
    .update(JSON.stringify([digest, ...chosen, mmproj, ...files]))
    .digest('hex')
}
