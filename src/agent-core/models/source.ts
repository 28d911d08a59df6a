import { createHash } from 'node:crypto'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

export type ModelSource =
  /** `url` may hold credentials: it is for the request alone, people and logs get `shownSource`. */
  | { kind: 'http'; url: string }
  | { kind: 'local'; path: string }
  | { kind: 'unsupported'; scheme: string; message: string }

/** What a Model's `spec.source` means to us. Never throws: what cannot be used comes back with a sentence saying why. */
export function parseModelSource(source: string): ModelSource {
  if (source.trim() === '')
    return unsupported('', 'The Model has no spec.source: give an https:// address or an absolute path.')
  if (hasControlCharacter(source)) return unsupported('', 'spec.source contains a control character: remove it.')
  if (source.startsWith('/')) return { kind: 'local', path: source }
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(source)?.[1]?.toLowerCase() ?? ''
  switch (scheme) {
    case 'http':
    case 'https':
      return httpSource(source, scheme)
    case 'file':
      return fileSource(source)
    case 'hf':
      return unsupported(scheme, hubMessage(source, source.slice(source.indexOf(':') + 1)))
    case 's3':
      return unsupported(
        scheme,
        `${shownSource(source)} is an S3 object, which this agent does not fetch: give a public or presigned https:// address of it, or copy the file to this machine and give its absolute path.`,
      )
    case 'pvc':
      return unsupported(
        scheme,
        `${shownSource(source)} is a volume inside the cluster, which this machine cannot mount: give an https:// address, or copy the file to this machine and give its absolute path.`,
      )
    case '':
      return unsupported(
        scheme,
        /^[^/\s:]+\/[^\s:]+$/.test(source)
          ? hubMessage(source, source)
          : `${shownSource(source)} is neither an address nor an absolute path: give an https:// address, or a path that begins with /.`,
      )
    default:
      return unsupported(
        scheme,
        `${shownSource(source)} uses the scheme ${scheme}://, which this agent does not know: give an https:// address or an absolute path.`,
      )
  }
}

/** The source without credentials, query and fragment: what messages, logs and records may hold. */
export function shownSource(source: string): string {
  return source.replace(/[?#].*$/s, '').replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, '$1')
}

/** Tells sources apart (hex SHA-256). Two sources that differ in the query are two sources; a fragment does not count. */
export function sourceDigest(source: string): string {
  const parsed = parseModelSource(source)
  return createHash('sha256')
    .update(parsed.kind === 'http' ? parsed.url : source)
    .digest('hex')
}

/** The source's base name in the store: a single safe path element, without query. */
export function modelFileName(source: string): string {
  const name = lastElement(source.replace(/[?#].*$/s, ''))
  if (isSafeFileName(name)) return name
  const extension = extname(name).toLowerCase() === '.gguf' ? '.gguf' : ''
  return `model-${sourceDigest(source).slice(0, shortDigestLength)}${extension}`
}

/** The name under which LLMKube's Go agent keeps this source (the query stays in it); undefined where we do not trust that name. */
export function goAgentFileName(source: string): string | undefined {
  const name = lastElement(source)
  return isSafeFileName(name) ? name : undefined
}

/** 64 bits tell a person's sources apart and keep paths short. */
export const shortDigestLength = 16

/** Leaves room for our suffixes below the usual limit of 255 bytes. */
const maxNameBytes = 200

/**
 * One path element that cannot be taken for anything else in a model's folder: not a partial download (ours or the Go
 * agent's), not one of our records, not the folder of a source. Compared without case, as macOS volumes do.
 */
function isSafeFileName(name: string): boolean {
  const lower = name.toLowerCase()
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    name.isWellFormed() &&
    Buffer.byteLength(name) <= maxNameBytes &&
    !/[/\\]/.test(name) &&
    !hasControlCharacter(name) &&
    !lower.endsWith('.partial') &&
    !lower.includes('.metalbar.') &&
    !/^[0-9a-f]{16}$/.test(lower)
  )
}

function httpSource(source: string, scheme: string): ModelSource {
  const url = URL.parse(source)
  if (url === null || url.hostname === '' || !/^https?:\/\//i.test(source)) {
    return unsupported(
      scheme,
      `${shownSource(source)} is not a valid address: write it as ${scheme}://host/path/file.gguf.`,
    )
  }
  url.hash = ''
  return { kind: 'http', url: url.href }
}

function fileSource(source: string): ModelSource {
  const url = URL.parse(source)
  if (url === null)
    return unsupported('file', `${source} is not a valid file address: write it as file:///path/file.gguf.`)
  if (url.hostname !== '' && url.hostname !== 'localhost') {
    return unsupported(
      'file',
      `${source} names the machine ${url.hostname}: file addresses have three slashes, as in file:///path/file.gguf.`,
    )
  }
  try {
    const path = fileURLToPath(`file://${url.pathname}`)
    if (hasControlCharacter(path)) return unsupported('file', 'spec.source contains a control character: remove it.')
    return { kind: 'local', path }
  } catch {
    return unsupported('file', `${source} is not a path that can be decoded: write a % in it as %25, and no %2F.`)
  }
}

function hubMessage(source: string, repository: string): string {
  const [owner, name, ...file] = shownSource(repository)
    .split('/')
    .filter((element) => element !== '')
  const address = `https://huggingface.co/${owner ?? 'OWNER'}/${name ?? 'REPOSITORY'}/resolve/main/${file.length > 0 ? file.join('/') : 'FILE.gguf'}`
  return `${shownSource(source)} is a Hugging Face repository, which this agent does not resolve yet: give the file's own address, ${address}, or an absolute path.`
}

function unsupported(scheme: string, message: string): ModelSource {
  return { kind: 'unsupported', scheme, message }
}

/** As Go's `filepath.Base`. */
function lastElement(text: string): string {
  return text.replace(/\/+$/, '').split('/').at(-1) ?? ''
}

function hasControlCharacter(text: string): boolean {
  return /\p{Cc}/u.test(text)
}
