import { createHash } from 'node:crypto'
import { hubAddressOf } from './hub/endpoint.ts'
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
export function selectionDigest({
  source,
  format = 'gguf',
  quantization = '',
  files = [],
  mmproj = '',
}: Selection): string {
  const digest = sourceDigest(source)
  // There format and quantization choose among files; elsewhere they only describe.
  const chosen = isRepository(source) ? [format === 'gguf' ? '' : format, quantization] : ['', '']
  if ([...chosen, ...files, mmproj].every((part) => part === '')) return digest
  return createHash('sha256')
    .update(JSON.stringify([digest, ...chosen, mmproj, ...files]))
    .digest('hex')
}

/** The page of one too, on whatever mirror. */
function isRepository(source: string): boolean {
  const parsed = parseModelSource(source)
  if (parsed.kind !== 'http') return parsed.kind === 'hub'
  const page = hubAddressOf(parsed.url, new URL(parsed.url).origin)
  return page !== undefined && !/\.(?:gguf|safetensors|bin|pth?)$/i.test(page.path ?? '')
}
