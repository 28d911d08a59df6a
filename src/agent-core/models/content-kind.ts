import { open } from 'node:fs/promises'
import { ModelError } from './errors.ts'
export type ContentKind =
  'empty' | 'gguf' | 'ggml' | 'safetensors' | 'zip' | 'pickle' | 'program' | 'html' | 'lfs-pointer' | 'text' | 'unknown'

/** Bytes at the start of a file that tell what it is. */
export const magicLength = 512

/** What a file is, judged by its first bytes. */
export function contentKindOf(bytes: Uint8Array): ContentKind {
  const start = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, magicLength))
  if (start.length === 0) return 'empty'
  const magic = start.toString('latin1', 0, 4)
  if (magic === 'GGUF') return 'gguf'
  if (magic === 'PK\x03\x04') return 'zip'
  if (['tjgg', 'fmgg', 'lmgg', 'algg'].includes(magic)) return 'ggml'
  if (isSafetensors(start)) return 'safetensors'
  if (start[0] === 0x80 && start[1] !== undefined && start[1] >= 2 && start[1] <= 5) return 'pickle'
  if (isProgram(start)) return 'program'
  if (looksLikeHtml(start)) return 'html'
  if (start.toString('latin1').startsWith('version https://git-lfs.github.com/spec/')) return 'lfs-pointer'
  return isText(start) ? 'text' : 'unknown'
}

/** The length of a JSON header in 8 bytes (the format allows 100 MB), then the header. */
function isSafetensors(start: Buffer): boolean {
  if (start.length < 10 || start[8] !== 0x7b) return false
  const length = start.readBigUInt64LE(0)
  return length >= 2n && length <= 100_000_000n
}

/** What systems load as code: ELF, Mach-O, PE, archives of objects, and scripts that name their interpreter. */
function isProgram(start: Buffer): boolean {
  const text = start.toString('latin1')
  if (/^(?:\x7fELF|MZ|!<arch>|#!)/.test(text)) return true
  return /^(?:feedfac[ef]|c[ef]faedfe|cafebab[ef])/.test(start.toString('hex', 0, 4))
}

/** No control characters but white space, and UTF-8 except perhaps for a character cut off at the end. */
function isText(start: Buffer): boolean {
  return (
    start.every((byte) => byte >= 0x20 || (byte >= 0x09 && byte <= 0x0d)) &&
    !start.toString().slice(0, -3).includes('\uFFFD')
  )
}

const names: Readonly<Record<Exclude<ContentKind, 'unknown'>, string>> = {
  empty: 'an empty file',
  gguf: 'GGUF',
  ggml: 'a GGML file from before GGUF',
  safetensors: 'a safetensors file',
  zip: 'a zip archive, which is how PyTorch saves models',
  pickle: 'a Python pickle, which is how PyTorch saved models',
  program: 'a program',
  html: 'a web page',
  'lfs-pointer': 'a Git LFS pointer',
  text: 'a text file',
}

/** One sentence about a file that stands where a GGUF file should. */
export function notGgufSentence(name: string, kind: Exclude<ContentKind, 'gguf'>): string {
  switch (kind) {
    case 'empty':
      return `${name} is empty, not a GGUF file: fetch it again.`
    case 'ggml':
      return `${name} is ${names.ggml}, which llama.cpp no longer loads: get the model as GGUF.`
    case 'lfs-pointer':
      return `${name} is a Git LFS pointer, not the GGUF file that it stands for: fetch that with "git lfs pull".`
    case 'html':
      return `${name} is a web page, not a GGUF file: give the address of the file itself, and see whether it needs a login.`
    case 'unknown':
      return `${name} is not a GGUF file: it does not begin with the letters GGUF.`
    case 'safetensors':
    case 'program':
    case 'zip':
    case 'pickle':
    case 'text':
      return `${name} is ${names[kind]}, not a GGUF file: give the GGUF file of this model.`
  }
}

/** What a weights file may be under each `spec.format` of a Model; `custom` may be any model. */
const kindsOf: Readonly<Record<string, readonly ContentKind[]>> = {
  gguf: ['gguf'],
  mlx: ['safetensors'],
  safetensors: ['safetensors'],
  pytorch: ['zip', 'pickle'],
}
const modelsOf: Readonly<Record<string, string>> = {
  gguf: 'a GGUF model',
  mlx: 'an MLX model',
  safetensors: 'a safetensors model',
  pytorch: 'a PyTorch model',
}
const formatOf: Partial<Record<ContentKind, string>> = {
  gguf: 'gguf',
  safetensors: 'safetensors',
  zip: 'pytorch',
  pickle: 'pytorch',
}

/** Whether a file that begins like this can be a model at all. */
export const isModelKind = (kind: ContentKind): boolean => kind === 'ggml' || formatOf[kind] !== undefined

/** Whether a file that begins like this may lie beside a model: its configuration, a vocabulary, another model. */
export const isSideKind = (kind: ContentKind): boolean => kind === 'text' || kind === 'unknown' || isModelKind(kind)

/** Whether a file that begins like this can be weights of a Model of this `spec.format`; one that we do not know takes any model. */
export const isKindOf = (format: string | undefined, kind: ContentKind): boolean =>
  kindsOf[(format ?? 'gguf').toLowerCase()]?.includes(kind) ?? isModelKind(kind)

/**
 * A sentence that names both where a Model's `spec.format` and its weights file are two formats. Undefined where they
 * agree, and where the file is no model at all (a web page, a text): that is another complaint, and may pass.
 */
export function formatContradiction(format: string | undefined, kind: ContentKind): string | undefined {
  const found = formatOf[kind]
  const lower = format?.toLowerCase() ?? ''
  const allowed = kindsOf[lower]
  if (kind === 'unknown' || found === undefined || allowed === undefined || allowed.includes(kind)) return undefined
  const what = kind === 'gguf' ? 'GGUF' : names[kind]
  return `spec.format says ${lower}, but the file is ${what}: set spec.format to ${found}, or let spec.source name ${modelsOf[lower] ?? 'another'}.`
}

export function expectsGguf(fileName: string): boolean {
  return fileName.toLowerCase().endsWith('.gguf')
}

export function isGguf(start: Buffer): boolean {
  return start.subarray(0, 4).toString('latin1') === 'GGUF'
}

export function looksLikeHtml(start: Buffer): boolean {
  // White space is also what a byte-order mark is.
  return /^\s*<(?:!doctype\s+html|html|head|!--)/i.test(start.toString('utf8'))
}

/** The file's first bytes, enough for `contentKindOf`. */
export async function firstBytes(path: string): Promise<Buffer> {
  await using handle = await open(path)
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(magicLength), 0, magicLength, 0)
  return buffer.subarray(0, bytesRead)
}

/** The refusal of a file that begins as one of another format than the Model says. */
export function formatMismatch(start: Uint8Array, format = 'gguf'): ModelError | undefined {
  const problem = formatContradiction(format, contentKindOf(start))
  return problem === undefined ? undefined : ModelError.terminal('FormatMismatch', problem)
}

/** Throws `FormatMismatch` where the file is of another format than the Model says. */
export async function requireFormat(path: string, format: string | undefined): Promise<void> {
  const problem = formatMismatch(await firstBytes(path), format)
  if (problem) throw problem
}
