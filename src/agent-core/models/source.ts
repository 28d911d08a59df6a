import { createHash } from 'node:crypto'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

export type ModelSource =
  /** `url` may hold credentials: it is for the request alone, people and logs get `shownSource`. */
  | { kind: 'http'; url: string }
  | { kind: 'local'; path: string }
  /** A repository of the Hugging Face Hub, or one file or folder in it. */
  | ({ kind: 'hub' } & HubAddress)
  /** A tag of Ollama's library, or of another registry that speaks as it does. */
  | ({ kind: 'ollama' } & OllamaAddress)
  /** An object of S3, or of a server that speaks as it does. */
  | ({ kind: 's3' } & BucketAddress)
  | { kind: 'unsupported'; scheme: string; message: string }

export interface HubAddress {
  /** `owner/name` */
  readonly repo: string
  /** Decoded, `/`-separated; absent = the repository. Not yet known to be safe. */
  readonly path?: string
  /** Branch, tag or commit; absent = `main`. */
  readonly revision?: string
  /** As llama.cpp writes it behind the repository: `owner/name:Q4_K_M`. */
  readonly quantization?: string
}

export interface BucketAddress {
  readonly bucket: string
  /** As it is: nothing in it is encoded. */
  readonly key: string
}

/** As Ollama completes a name. */
export interface OllamaAddress {
  readonly host: string
  readonly namespace: string
  readonly name: string
  readonly tag: string
}

/** What a tag of Ollama's says beside its weights, and the name that it is kept by beside them. */
export const ollamaTexts = { template: 'template.ollama', system: 'system.ollama', params: 'params.ollama' } as const
/** Longer than any template. */
export const maxOllamaTextBytes = 1024 * 1024

export const ollamaNameOf = ({ host, namespace, name, tag }: OllamaAddress): string =>
  `${host}/${namespace}/${name}:${tag}`

/** What a Model's `spec.source` means to us. Never throws: what cannot be used comes back with a sentence saying why. */
export function parseModelSource(source: string): ModelSource {
  if (source.trim() === '')
    return unsupported(
      '',
      'The Model has no spec.source: give an https:// address, a Hugging Face repository (hf://owner/name) or an absolute path.',
    )
  if (hasControlCharacter(source)) return unsupported('', 'spec.source contains a control character: remove it.')
  if (source.startsWith('/')) return { kind: 'local', path: source }
  const page = hubPage.exec(source)?.[1]
  if (page !== undefined) return httpSource(`https://${page}`, 'https')
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(source)?.[1]?.toLowerCase() ?? ''
  switch (scheme) {
    case 'http':
    case 'https':
      return httpSource(source, scheme)
    case 'file':
      return fileSource(source)
    case 'hf':
      return hubSource(source, source.replace(/^hf:\/*/i, ''))
    case 'ollama':
      return ollamaSource(source)
    case 's3':
      return s3Source(source)
    case 'pvc':
      return unsupported(
        scheme,
        `${shownSource(source)} is a volume inside the cluster, which this machine cannot mount: give an https:// address, or copy the file to this machine and give its absolute path.`,
      )
    case '':
      return /^[^/\s:]+\/[^\s]+$/.test(source)
        ? hubSource(source, source)
        : unsupported(
            scheme,
            `${shownSource(source)} is neither an address nor an absolute path: give an https:// address, a Hugging Face repository (owner/name), or a path that begins with /.`,
          )
    default:
      return unsupported(
        scheme,
        `${shownSource(source)} uses the scheme ${scheme}://, which this agent does not know: give an https:// address, a Hugging Face repository (hf://owner/name), a tag of Ollama's library (ollama://name:tag), an object of S3 (s3://bucket/file.gguf) or an absolute path.`,
      )
  }
}

/** An address of the Hub without its scheme, as people copy it and as `ollama run` takes it. */
const hubPage = /^(?:hf:\/*)?((?:huggingface\.co|hf\.co)\/.+)$/is

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

/** The longest path below a model's folder; the usual limit of a whole path is 1024 on macOS. */
export const maxPathBytes = 500

/**
 * One path element that cannot be taken for anything else in a model's folder: not a partial download (ours or the Go
 * agent's), not one of our records, not the folder of a source. Compared without case, as macOS volumes do.
 */
export function isSafeFileName(name: string): boolean {
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

/** A path below a model's folder that can neither leave it nor be taken for one of our own files there. */
export function isSafePath(path: string): boolean {
  return Buffer.byteLength(path) <= maxPathBytes && path.split('/').every(isSafeFileName)
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

function hubSource(source: string, address: string): ModelSource {
  const parsed = parseHubAddress(address)
  return typeof parsed === 'string' ? unsupported('hf', `${shownSource(source)} ${parsed}`) : { kind: 'hub', ...parsed }
}

/** `owner/name[:QUANT][@revision][/path]` or `owner/name[/path][@revision]`; a refusal completes "<source> …". */
function parseHubAddress(address: string): HubAddress | string {
  const hint = 'write it as hf://owner/name, hf://owner/name/file.gguf or hf://owner/name@revision.'
  const [, owner = '', name = '', tag, atName, rest = ''] =
    /^(?:models\/(?=[^/]+\/))?([^/@:]+)\/([^/@:]+)(?::([^/@]+))?(?:@(refs\/[^/]+\/[^/]+|[^/]+))?\/?(.*)$/s.exec(
      address.replace(/(?<=@)refs%2F([^/%]+)%2F/i, 'refs/$1/'),
    ) ?? []
  if (owner === 'datasets' || owner === 'spaces' || owner === 'buckets') {
    return `is not in a model repository of the Hub but in one of its ${owner}: give a model repository, as hf://owner/name.`
  }
  if (!isRepoElement(owner) || !isRepoElement(name)) return `does not name a Hugging Face repository: ${hint}`
  const at = atName === undefined ? rest.lastIndexOf('@') : -1
  const path = (at === -1 ? rest : rest.slice(0, at)).replace(/(?<!\/)\/+$/, '')
  const revision = atName ?? (at === -1 ? undefined : rest.slice(at + 1))
  if (revision !== undefined && !isRevision(revision)) return `has no valid revision after the @: ${hint}`
  return {
    repo: `${owner}/${name}`,
    ...(path === '' ? {} : { path }),
    ...(revision === undefined ? {} : { revision }),
    ...(tag === undefined ? {} : { quantization: tag }),
  }
}

function s3Source(source: string): ModelSource {
  const [, bucket, key = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])\/(.+)$/i.exec(source) ?? []
  const elements = key.replace(/\/$/, '').split('/')
  const isPlain = elements.every((element) => !['', '.', '..'].includes(element)) && !/[?#\\]/.test(key)
  if (bucket !== undefined && isPlain) return { kind: 's3', bucket: bucket.toLowerCase(), key }
  return unsupported(
    's3',
    `${shownSource(source)} does not name an object of S3: write it as s3://bucket/path/file.gguf, without . and .. in its path, and without a query.`,
  )
}

/** `[host/][namespace/]name[:tag]`, by Ollama's own rules; names are compared without case there. */
function ollamaSource(source: string): ModelSource {
  const address = source.replace(/^ollama:\/*/i, '')
  const [, host = 'registry.ollama.ai', namespace = 'library', name = '', tag = 'latest'] =
    /^(?:(?:([\w.-]+(?::\d{1,5})?)\/)?([\w-]{1,80})\/)?(\w[\w.-]{0,79})(?::(\w[\w.-]{0,79}))?$/.exec(address) ?? []
  if (name === '' || host.length > 253) {
    return unsupported(
      'ollama',
      `${shownSource(source)} does not name a model of Ollama: write it as ollama://name:tag or ollama://owner/name:tag.`,
    )
  }
  const lower = { host: host.toLowerCase(), namespace: namespace.toLowerCase(), name: name.toLowerCase() }
  return { kind: 'ollama', ...lower, tag: tag.toLowerCase() }
}

/** As the Hub allows the names of owners and repositories. */
export function isRepoElement(name: string): boolean {
  return /^\w[\w.-]{0,95}$/.test(name) && !name.includes('..')
}

/** A branch, tag or commit as git allows them, as far as it could leave an address. */
export function isRevision(name: string): boolean {
  return /^[\w][\w./+-]{0,199}$/.test(name) && !name.includes('..') && !name.includes('//')
}

function unsupported(scheme: string, message: string): ModelSource {
  return { kind: 'unsupported', scheme, message }
}

/** As Go's `filepath.Base`. */
function lastElement(text: string): string {
  return (
    text
      .replace(/(?<!\/)\/+$/, '')
      .split('/')
      .at(-1) ?? ''
  )
}

function hasControlCharacter(text: string): boolean {
  return /\p{Cc}/u.test(text)
}
