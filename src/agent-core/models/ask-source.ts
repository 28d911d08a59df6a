import { contentKindOf, formatMismatch, isKindOf, isModelKind, isSideKind, magicLength } from './content-kind.ts'
import { contentLength, contentProblem, emptyAnswer, refusal } from './download/answer.ts'
import { type Asked, Body, discard, PaceGuard, send } from './download/request.ts'
import type { Transport } from './download/transport.ts'
import { ModelError } from './errors.ts'
import type { RemoteFile, RemoteSource, ResolveContext } from './resolve.ts'
import { isBesideWeights, isFolderFormat, isWeightsName } from './selection.ts'
import { shownSource } from './source.ts'
import type { Manifest } from './store/records.ts'

interface How {
  readonly transport: Transport
  readonly signal: AbortSignal
}

export type AskContext = ResolveContext &
  How & {
    /** The owner of the bytes if something secret is sent to fetch them: see `owners`. */
    readonly owner: string
  }

export interface RemoteState {
  readonly sizeBytes: number | undefined
  /** The ETag, else the time of the last change. */
  readonly validator: string | undefined
}

/** A server that has a file says so within this. */
const answerMs = 30_000

/** What servers say of the files of a source without sending them, by their paths; of a Hub's files its listing says all. Throws ModelError, or the signal's reason. */
export async function remoteStates(files: RemoteSource['files'], how: How): Promise<ReadonlyMap<string, RemoteState>> {
  const states = new Map<string, RemoteState>()
  for (const file of files) if (!isStated(file)) states.set(file.path, await remoteState(file, how))
  return states
}

/** Whether what was asked which files there are stated the content of this one too. */
const isStated = ({ hub, isOfRegistry }: RemoteFile): boolean => hub !== undefined || isOfRegistry === true

async function remoteState({ url, credentials }: RemoteFile, { transport, signal }: How): Promise<RemoteState> {
  const shown = shownSource(url)
  using guard = new PaceGuard(answerMs, shown)
  const { status, headers, body } = await send({ method: 'HEAD', url, credentials }, { transport, signal, guard })
  discard(body)
  const problem = refusal(status, headers, shown, Date.now())
  if (problem) throw problem
  const length = contentLength(headers) ?? 0
  return {
    sizeBytes: length > 0 ? length : undefined,
    validator: headers.get('etag') ?? headers.get('last-modified') ?? undefined,
  }
}

/**
 * Whether a source still holds what was stored of it: `same` where a checksum or validator of every file says so, `perhaps` where nothing
 * speaks against it.
 */
export function compareWithStored(
  files: RemoteSource['files'],
  states: ReadonlyMap<string, RemoteState>,
  manifest: Manifest,
): 'same' | 'perhaps' | 'different' {
  if (files.length !== manifest.files.length) return 'different'
  let isProven = true
  for (const file of files) {
    const known = manifest.files.find(({ path }) => path === file.path)
    if (!known) return 'different'
    const { sizeBytes, validator } = states.get(file.path) ?? { sizeBytes: file.sizeBytes, validator: file.blob }
    const [says, has] =
      isStated(file) && file.sha256 !== undefined ? [file.sha256, known.sha256] : [validator, known.etag]
    if (sizeBytes !== undefined && sizeBytes !== known.sizeBytes) return 'different'
    if (says === undefined || has === undefined) isProven = false
    else if (says !== has) return 'different'
  }
  return isProven ? 'same' : 'perhaps'
}

/** What a file is to the Model that names it. */
export interface Expected {
  /** The one that a runtime is given. */
  readonly isFirst: boolean
  readonly format: string | undefined
}

/**
 * Whether the file is given, as its download will begin: some servers answer a question for the file's state to everybody, and others with a
 * page to log in. Throws ModelError where it is not.
 */
export async function requireFile(file: RemoteFile, expected: Expected, { transport, signal }: How): Promise<void> {
  const { url, credentials, fileName } = file
  const shown = shownSource(url)
  using guard = new PaceGuard(answerMs, shown)
  const asked: Asked = { url, credentials, range: [0, magicLength] }
  const answer = await send(asked, { transport, signal, guard })
  const { status, headers, body } = answer
  try {
    const problem = refusal(status === 206 ? 200 : status, headers, shown, Date.now())
    if (problem) throw problem
    const start = await new Body(answer, guard, signal, shown).start(undefined)
    if (start.length === 0) throw emptyAnswer(shown)
    const page = contentProblem(fileName, start, headers.get('content-type'), shown)
    const other = page ?? startProblem(start, file, expected)
    if (other) throw other
  } finally {
    discard(body)
  }
}

/**
 * Why a file of a model that begins like this is not kept: its weights have to begin as a model of the Model's format, a projector as GGUF,
 * what else is named as weights as any model. What lies beside them may be anything but a program or a web page.
 */
export function startProblem(start: Uint8Array, file: RemoteFile, expected: Expected): ModelError | undefined {
  const { isFirst, format } = expected
  const shown = shownSource(file.url)
  if (start.length === 0) return emptyAnswer(shown)
  const problem =
    contentProblem(file.fileName, Buffer.from(start), null, shown) ?? (isFirst && formatMismatch(start, format))
  if (problem) return problem
  if (mayBegin(start, file, expected)) return undefined
  const what = isFirst ? `no model of spec.format ${format ?? 'gguf'}` : 'neither a model nor what belongs to one'
  return ModelError.untilRepairedThere(
    'NotAModel',
    `${shown} answered with something that is ${what}: check spec.source and spec.format.`,
  )
}

function mayBegin(start: Uint8Array, { fileName, role }: RemoteFile, { isFirst, format }: Expected): boolean {
  const kind = contentKindOf(start)
  if (role === 'mmproj') return kind === 'gguf'
  const isWeights = isWeightsName(fileName)
  if (isFirst && (isWeights || !isFolderFormat(format))) return isKindOf(format, kind)
  if (format !== 'mlx' && format !== 'safetensors') return isWeights ? isModelKind(kind) : isSideKind(kind)
  // Pickles are programs, and what Python finds beside a model it may run.
  if (isWeights) return isKindOf(format, kind)
  return isBesideWeights(fileName) && (kind === 'text' || kind === 'unknown')
}
