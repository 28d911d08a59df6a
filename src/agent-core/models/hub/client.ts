import { listFiles, modelInfo, pathsInfo } from '@huggingface/hub'
import { z } from 'zod'
import { boundedBody } from '../../util/bounded-body.ts'
import { errorCode } from '../../util/error-code.ts'
import { messageOf } from '../../util/message-of.ts'
import { KeptWorkers, startWorker } from '../../util/worker.ts'
import { type Credentials, hubCredentials, Login } from '../download/request.ts'
import { ModelError } from '../errors.ts'
import { connectionError, refusal } from '../download/answer.ts'
import { maxListedBytes, maxListedFiles } from '../selection.ts'
import { maxPathBytes } from '../source.ts'
import { fileUrl, publicHub } from './endpoint.ts'
import type { HubToken } from './token.ts'

export type Fetch = typeof globalThis.fetch

export interface HubClientOptions {
  /** As `hubEndpoint` gives it. */
  readonly endpoint: string
  readonly fetch: Fetch
  readonly token: HubToken | undefined
  /** See `ResolveContext`. */
  readonly isOwnServer?: boolean | undefined
  /** See `HubQuestion.namespace`. */
  readonly namespace?: string | undefined
  readonly signal: AbortSignal
  /** For tests: the token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean | undefined
  /** For tests: the longest wait for one answer, else 30 s. */
  readonly timeoutMs?: number | undefined
}

/** A file of a repository as the Hub lists it. */
export interface HubFile {
  readonly path: string
  readonly sizeBytes: number
  /** Only of files that are kept by git-lfs. */
  readonly sha256?: string
  /** What the Hub calls this content: the sha256, else git's hash. */
  readonly blob: string
}

export interface RepoState {
  /** The commit that a branch or tag means now; absent where the endpoint (a mirror) does not say. */
  readonly commit?: string
  /** Neither private nor gated; absent where the endpoint does not say. */
  readonly isPublic?: boolean
}

type Asked = Pick<HubQuestion, 'repo' | 'revision' | 'path'>

/** Listings and file info of one Hub. Every method throws ModelError, or the signal's reason when that is aborted. */
export class HubClient {
  readonly #options: HubClientOptions

  constructor(options: HubClientOptions) {
    this.#options = options
  }

  /** The login that the Hub, and its files, may be asked with. */
  get credentials(): Credentials | undefined {
    const { endpoint, token, allowInsecureLoopback } = this.#options
    return hubCredentials(endpoint, token, allowInsecureLoopback)
  }

  /** The address of a file's bytes. */
  fileUrl(repo: string, revision: string, path: string): string {
    return fileUrl(this.#options.endpoint, repo, revision, path)
  }

  async state(repo: string, revision = 'main'): Promise<RepoState> {
    const answer = await this.#ask({ repo, revision }, async (hubUrl, fetch) =>
      modelInfo({ name: repo, revision, hubUrl, fetch, additionalFields: ['sha'] }),
    )
    const { sha, private: isPrivate, gated } = this.#checked(repoState, answer, repo)
    const isClosed = isPrivate === true || (gated !== undefined && gated !== false)
    const isSaid = isClosed || (isPrivate !== undefined && gated !== undefined)
    return { ...(sha !== undefined && { commit: sha }), ...(isSaid && { isPublic: !isClosed }) }
  }

  /** Every file of the repository whose path can be kept, at most `maxListedFiles`. */
  async list(repo: string, revision: string): Promise<HubFile[]> {
    return this.#ask({ repo, revision }, async (hubUrl, fetch) => {
      const files: HubFile[] = []
      let nameBytes = 0
      // The library puts the revision into the path as it is.
      const entries = listFiles({ repo, revision: encodeURIComponent(revision), recursive: true, hubUrl, fetch })
      for await (const entry of entries) {
        const parsed = this.#checked(treeEntry, entry, repo)
        const pathBytes = Buffer.byteLength(parsed.path)
        if (parsed.type !== 'file' || pathBytes > maxPathBytes) continue
        files.push(hubFile(parsed))
        nameBytes += pathBytes
        if (files.length > maxListedFiles || nameBytes > maxListedBytes) {
          throw ModelError.terminal(
            'Ambiguous',
            `${repo} has more than ${maxListedFiles} files or ${maxListedBytes / 1024 ** 2} MiB of names, too many to choose from: name the file in spec.source, as hf://${repo}/file.gguf.`,
          )
        }
      }
      return files
    })
  }

  /** The files among the paths; the others are left out. */
  async info(repo: string, revision: string, paths: readonly string[]): Promise<HubFile[]> {
    return this.#ask({ repo, revision, path: paths[0] }, async (hubUrl, fetch) => {
      const found = await pathsInfo({ repo, revision, paths: [...paths], hubUrl, fetch })
      return found
        .map((entry) => this.#checked(treeEntry, entry, repo))
        .filter(({ type }) => type === 'file')
        .map(hubFile)
    })
  }

  /** Throws where the Hub refuses the file, in a sentence that says more than its download could. */
  async requireAccess(repo: string, revision: string, path: string): Promise<void> {
    await this.#ask({ repo, revision, path }, async (_, fetch) => {
      const answer = await fetch(this.fileUrl(repo, revision, path), { method: 'HEAD', redirect: 'manual' })
      await answer.body?.cancel()
    })
  }

  async #ask<T>(question: Asked, call: (hubUrl: string, fetch: Fetch) => Promise<T>): Promise<T> {
    const { endpoint, signal } = this.#options
    signal.throwIfAborted()
    let requests = 0
    const startedAt = performance.now()
    const fetch: Fetch = (input, init) => {
      requests += 1
      if (performance.now() - startedAt > listingMs) {
        throw badAnswer(question.repo, `its listing did not end within ${listingMs / 60_000} minutes`)
      }
      if (requests > maxPages) throw badAnswer(question.repo, `its listing has more than ${maxPages} pages`)
      return this.#fetch(new URL(input instanceof Request ? input.url : input), init, question)
    }
    try {
      return await call(endpoint, fetch)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ModelError) throw error
      throw badAnswer(question.repo, messageOf(error), error)
    }
  }

  async #fetch(named: URL, init: RequestInit | undefined, asked: Asked): Promise<Response> {
    const { endpoint, fetch, token, namespace, isOwnServer, signal, timeoutMs = answerMs } = this.#options
    // Mirrors hand on the Hub's answers, in which the next page is at the Hub.
    const url = new URL(endpoint === publicHub ? named : named.href.replace(`${publicHub}/`, `${endpoint}/`))
    if (url.host !== new URL(endpoint).host) throw badAnswer(asked.repo, `it leads to another host, ${url.host}`)
    const { authorization } = new Login({ url: url.href, credentials: this.credentials }).headersFor(url)
    const isSent = authorization !== undefined
    const headers = new Headers(init?.headers)
    if (isSent) headers.set('authorization', authorization)
    const timeout = AbortSignal.timeout(timeoutMs)
    const either = AbortSignal.any([signal, timeout])
    const shown = `${endpoint}/${asked.repo}`
    try {
      const response = await fetch(url.href, { ...init, headers: Object.fromEntries(headers), signal: either })
      const login = isSent ? { sent: token } : { sent: undefined, withheld: token }
      const question = { ...asked, endpoint, namespace, isOwnServer, ...login }
      const problem = hubRefusal(response.status, response.headers, question, Date.now())
      if (problem !== undefined) {
        await response.body?.cancel()
        throw problem
      }
      if (response.body === null) return response
      const { status, statusText } = response
      return new Response(await quicklyRead(await wholeBody(response.body, asked.repo), asked.repo, either), {
        status,
        statusText,
        headers: Object.fromEntries(response.headers),
      })
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ModelError) throw error
      if (timeout.aborted) throw silent(shown, timeoutMs, error)
      throw connectionError(error, shown)
    }
  }

  #checked<T>(schema: z.ZodType<T>, value: unknown, repo: string): T {
    const result = schema.safeParse(value)
    if (result.success) return result.data
    const [issue] = result.error.issues
    throw badAnswer(repo, `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`, result.error)
  }
}

/** The Hub gives 1,000 entries a page. */
const maxPages = 100

/** All pages together. */
const listingMs = 300_000

/** A page of 1,000 entries takes 300 kB. */
const maxAnswerBytes = 16 * 1024 * 1024

/**
 * JSON is read in one go, and some that is made to be slow takes a second for each MiB: more than so much is read in a thread of its own, which
 * leaves out what nobody asks for.
 */
const ownTurnBytes = 256 * 1024

/** Several times what the slowest answer leaves behind. */
const heapMiB = 1_024

/** A listing has up to 100 pages, and to start a thread takes longer than to read one. */
const readers = new KeptWorkers(() => startWorker(new URL('./hub-answer-worker.ts', import.meta.url), { heapMiB }))

/** A listing takes the Hub well under a second. */
const answerMs = 30_000

const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

const repoState = z.object({
  sha: z
    .string()
    .regex(/^[0-9a-f]{40}$/)
    .optional(),
  private: z.boolean().optional(),
  gated: z.union([z.boolean(), z.string()]).optional(),
})

const treeEntry = z.object({
  type: z.string(),
  path: z.string().min(1).max(4096),
  size: z.int().min(0),
  oid: z.string().max(200).optional(),
  lfs: z.object({ oid: sha256, size: z.int().min(0) }).optional(),
})

function hubFile({ path, size, oid, lfs }: z.infer<typeof treeEntry>): HubFile {
  return lfs === undefined
    ? { path, sizeBytes: size, blob: oid ?? `${size}` }
    : { path, sizeBytes: lfs.size, sha256: lfs.oid, blob: lfs.oid }
}

const wholeBody = async (body: ReadableStream<Uint8Array>, repo: string): Promise<Uint8Array<ArrayBuffer>> =>
  new Uint8Array(
    await boundedBody(body, maxAnswerBytes, () => badAnswer(repo, `it has more than ${maxAnswerBytes} bytes`)),
  )

async function quicklyRead(
  bytes: Uint8Array<ArrayBuffer>,
  repo: string,
  signal: AbortSignal,
): Promise<string | Uint8Array<ArrayBuffer>> {
  if (bytes.length <= ownTurnBytes) return bytes
  try {
    return z.string().parse(await readers.ask({ bytes, maxEntries: maxListedFiles + 1 }, { signal }))
  } catch (error) {
    signal.throwIfAborted()
    throw badAnswer(repo, messageOf(error), error)
  }
}

const badAnswer = (repo: string, why: string, cause?: unknown): ModelError =>
  ModelError.untilRepairedThere(
    'BadAnswer',
    `The Hub's answer about ${repo} cannot be used (${why}): check HF_ENDPOINT, and whether the network asks for a login.`,
    cause,
  )

function silent(shown: string, timeoutMs: number, cause: unknown): ModelError {
  const code = errorCode(cause)
  const how = `within ${timeoutMs / 1000} s${code === undefined ? '' : ` (${code})`}`
  const sentence = `${shown} did not answer ${how}: check the network; the agent tries again.`
  return ModelError.passing('Unreachable', sentence, { cause })
}

/** The request to the Hub, for the sentence that says why it was refused. */
export interface HubQuestion {
  readonly endpoint: string
  readonly repo: string
  readonly revision?: string | undefined
  readonly path?: string | undefined
  /** The token that the request carried. */
  readonly sent: HubToken | undefined
  /** Set where there is a token that this endpoint may not see. */
  readonly withheld?: HubToken | undefined
  /** Set where a Model of this namespace asks, to which this machine's login is not lent. */
  readonly namespace?: string | undefined
  /** A Secret names this Hub, which gets no token but that Secret's. */
  readonly isOwnServer?: boolean | undefined
}

/** What an answer of the Hub that is not a success means; undefined = the answer can be used. Codes: `X-Error-Code` as huggingface_hub knows them. */
export function hubRefusal(
  status: number,
  headers: Headers,
  question: HubQuestion,
  now: number,
): ModelError | undefined {
  if (status < 400) return undefined
  const { endpoint, repo, revision = 'main', path, sent, withheld } = question
  const page = `${endpoint}/${repo}`
  const hub = new URL(endpoint).host
  const giveToken =
    withheld === undefined
      ? `put a token into the Secret of spec.sourceSecretRef${otherPlaces(question)}`
      : `the token from ${withheld.from} was not sent because ${hub} is not asked over https, so set HF_ENDPOINT to an https:// address`
  switch (headers.get('x-error-code') ?? '') {
    case 'GatedRepo':
      return ModelError.untilRepairedThere(
        'AccessDenied',
        sent === undefined
          ? `${repo} is gated: accept its licence at ${page} and ${giveToken}.`
          : `${repo} is gated and the account of the token from ${sent.from} has no access: accept its licence at ${page} with that account, or give another token.`,
      )
    case 'RepoNotFound':
      return ModelError.untilRepairedThere(
        'NotFound',
        sent === undefined
          ? `${hub} has no public repository ${repo}: correct spec.source, or if it is private ${giveToken}.`
          : `${hub} has no repository ${repo} that the token from ${sent.from} may see: correct spec.source, or give a token of an account with access.`,
      )
    case 'RevisionNotFound':
      return ModelError.untilRepairedThere(
        'NoSuchRevision',
        `${repo} has no revision ${revision}: correct what follows the @ in spec.source.`,
      )
    case 'EntryNotFound':
      return ModelError.untilRepairedThere(
        'NoSuchFile',
        `${repo} has no file ${path ?? ''} at ${revision}: see ${page}/tree/${revision}.`,
      )
    case 'DisabledRepo':
      return ModelError.untilRepairedThere(
        'AccessDenied',
        `${hub} has disabled the repository ${repo}: see ${page} and give another source.`,
      )
  }
  if (status === 401 || status === 403) {
    return ModelError.untilRepairedThere(
      'AccessDenied',
      sent === undefined
        ? `${hub} answered ${status} for ${repo}: it needs a token, so ${giveToken}.`
        : `${hub} does not accept the Hugging Face token from ${sent.from} for ${repo} (${status}): it is wrong, expired or lacks the right to read, so replace it.`,
    )
  }
  if (status === 404 || status === 405 || status === 501) {
    return ModelError.untilRepairedThere(
      'NoHubApi',
      `${endpoint} does not answer as a Hugging Face Hub does (${status} for ${repo}): correct HF_ENDPOINT, or give the file's own https:// address.`,
    )
  }
  return refusal(status, headers, path === undefined ? page : `${page}/${path}`, now)
}

function otherPlaces({ namespace, isOwnServer }: HubQuestion): string {
  if (isOwnServer === true) return ''
  return namespace === undefined
    ? ', the setting hubTokenFile or HF_TOKEN'
    : `, or lend namespace ${namespace} this machine's login with --hub-login-namespaces ${namespace}`
}
