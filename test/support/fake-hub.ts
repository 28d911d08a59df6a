import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Identity } from './kube-sim/tls.ts'

/** A file as it is, or by its path on this machine (for what does not fit in memory). */
type HubContent = Buffer | { readonly file: string }

interface RepoOptions {
  /** Listed without a token; its files only with a token of `grantedTo`. */
  gated?: boolean
  /** Does not exist without a token of `grantedTo`. */
  private?: boolean
  /** Is told of as a public one although it is not, as some mirrors do. */
  isCalledPublic?: boolean
  /** Tokens that may read the repository. */
  grantedTo?: readonly string[]
}

export interface SeenHubRequest {
  readonly server: 'hub' | 'cdn'
  readonly method: string
  /** With its query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

export interface FakeRepo {
  /** Puts the files on `main` as a new commit in place of what was there, and returns its hash; older commits stay. */
  commit(files: Readonly<Record<string, HubContent>>): Promise<string>
  /** A branch or tag. */
  name(revision: string, commit: string): void
}

export interface FakeHub extends AsyncDisposable {
  /** For HF_ENDPOINT: `http://127.0.0.1:<port>`, or https, and the prefix. */
  readonly endpoint: string
  /** Where large files come from: another port and another name of this machine. */
  readonly cdnOrigin: string
  readonly requests: readonly SeenHubRequest[]
  /** Adds a repository with one commit, on `main`. Files that git-lfs would take are LFS files. */
  addRepo(name: string, files: Readonly<Record<string, HubContent>>, options?: RepoOptions): Promise<FakeRepo>
  /** How the CDN sends files; may be changed at any time. */
  readonly cdn: {
    /** Bytes per second of each response, 0 = as fast as it goes. */
    throttle: number
    /** The next responses close their connection after so many bytes of body, one number each. */
    readonly drops: number[]
  }
  /** Entries on one page of a listing. */
  pageSize: number
  /** Answers every API request with this status while set. */
  outage: { status: number; headers?: Record<string, string> } | undefined
  /** Replaces the next page of a listing, whatever was asked. */
  readonly listings: unknown[]
}

interface FakeHubOptions {
  /** That the fake Hub knows; any other is answered as an invalid one. */
  tokens?: readonly string[]
  /** Speaks https as it, for 127.0.0.1 and localhost; without it http. */
  identity?: Identity
  /** Of every path, as mirrors have it: `/hub`. */
  prefix?: string
  /** `files-only`: gives files alone, as a mirror may. `silent`: does not say which repositories are private or gated. */
  api?: 'files-only' | 'silent'
  /** Where it leads who may not have a file. */
  loginPage?: string
}

interface StoredFile {
  readonly path: string
  readonly content: HubContent
  readonly size: number
  readonly sha256: string
  readonly gitOid: string
  readonly lfs: boolean
}

interface Repo {
  readonly name: string
  readonly options: RepoOptions
  readonly commits: Map<string, ReadonlyMap<string, StoredFile>>
  readonly revisions: Map<string, string>
}

type Listed = ReturnType<typeof entry> | { type: 'directory'; oid: string; size: number; path: string }

/** To make one of thousands of files in deep folders takes longer than to send it. */
const knownListings = new WeakMap<ReadonlyMap<string, StoredFile>, Map<string, Listed[]>>()

interface Answer {
  status: number
  headers?: Record<string, string>
  body?: unknown
}

const lfsName = /\.(?:gguf|safetensors|bin|pt|pth|onnx|zip|model|msgpack|h5)$/i

/** The shapes of the Hugging Face Hub's API (listing, file info, resolving, gates) on real sockets, with a CDN of its own. */
export async function startFakeHub({
  tokens = ['hf_good', 'hf_other'],
  identity,
  prefix = '',
  api,
  loginPage,
}: FakeHubOptions = {}): Promise<FakeHub> {
  const repos = new Map<string, Repo>()
  const requests: SeenHubRequest[] = []
  const blobs = new Map<string, StoredFile>()
  const cdn = { throttle: 0, drops: [] as number[] }

  const hub = await listen((request, response) => answerHub(request, response), identity)
  const store = await listen((request, response) => answerCdn(request, response), identity)
  const scheme = identity === undefined ? 'http' : 'https'
  const endpoint = `${scheme}://127.0.0.1:${hub.port}${prefix}`
  const cdnOrigin = `${scheme}://localhost:${store.port}`

  const fake: FakeHub = {
    endpoint,
    cdnOrigin,
    requests,
    cdn,
    pageSize: 1000,
    outage: undefined,
    listings: [],
    addRepo: async (name, files, options = {}) => {
      const repo: Repo = { name, options, commits: new Map(), revisions: new Map() }
      repos.set(name.toLowerCase(), repo)
      const added: FakeRepo = {
        commit: async (content) => {
          const stored = await Promise.all(
            Object.entries(content).map(async ([path, bytes]) => storedFile(path, bytes)),
          )
          const hash = createHash('sha1').update(
            JSON.stringify([name, repo.commits.size, stored.map(({ path, sha256 }) => [path, sha256])]),
          )
          const commit = hash.digest('hex')
          for (const file of stored) blobs.set(file.sha256, file)
          repo.commits.set(commit, new Map(stored.map((file) => [file.path, file])))
          repo.revisions.set('main', commit)
          return commit
        },
        name: (revision, commit) => void repo.revisions.set(revision, commit),
      }
      await added.commit(files)
      return added
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([hub.close(), store.close()])
    },
  }
  return fake

  async function answerHub(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests.push(seen('hub', request))
    const url = new URL(request.url ?? '/', endpoint)
    const body = await bodyOf(request)
    if (!url.pathname.startsWith(`${prefix}/`)) {
      send(response, { status: 404, body: { error: 'Not found' } })
      return
    }
    const pathname = url.pathname.slice(prefix.length)
    if (fake.outage !== undefined) {
      response.writeHead(fake.outage.status, fake.outage.headers).end()
      return
    }
    const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1]
    if (token !== undefined && !tokens.includes(token)) {
      send(response, refusal(401, undefined, 'Invalid credentials in Authorization header'))
      return
    }
    const cached = /^\/api\/resolve-cache\/models\/([^/]+\/[^/]+)\/([0-9a-f]{40})\/(.+)$/.exec(pathname)
    const resolve = cached ?? /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(pathname)
    if (resolve !== null) {
      const [, name = '', revision = '', path = ''] = resolve
      await answerFile(request, response, { name, revision, path, token, direct: cached !== null })
      return
    }
    const question = /^\/api\/models\/([^/]+\/[^/]+)(?:\/(revision|tree|paths-info)\/([^/]+)(?:\/(.*))?)?$/.exec(
      pathname,
    )
    if (question === null || api === 'files-only') {
      send(response, { status: 404, body: { error: 'Not found' } })
      return
    }
    const [, name = '', verb = 'revision', revision = 'main', folder = ''] = question
    const found = find(name, decodeURIComponent(revision), token)
    if ('status' in found) {
      send(response, found)
      return
    }
    const { repo, commit, files } = found
    if (verb === 'revision') {
      const facts = info(repo, commit, files, url.searchParams)
      const { private: _, gated: __, ...silent } = facts
      send(response, { status: 200, body: api === 'silent' ? silent : facts })
    } else if (verb === 'tree') send(response, tree(url, files, decodeURIComponent(folder)))
    else {
      const { paths = [] } = JSON.parse(body) as { paths?: string[] } // the library's own request
      const entries = paths.map((path) => files.get(path)).filter((file) => file !== undefined)
      send(response, { status: 200, body: entries.map(entry) })
    }
  }

  function tree(url: URL, files: ReadonlyMap<string, StoredFile>, folder: string): Answer {
    const planted = fake.listings.shift()
    if (planted !== undefined) return { status: 200, body: planted }
    const isRecursive = url.searchParams.get('recursive') === 'true'
    const key = `${isRecursive} ${folder}`
    const known = knownListings.get(files) ?? new Map<string, Listed[]>()
    const entries = known.get(key) ?? listed(files, folder, isRecursive)
    knownListings.set(files, known.set(key, entries))
    const start = Number(url.searchParams.get('cursor') ?? 0)
    const end = start + fake.pageSize
    const next = new URL(url)
    next.searchParams.set('cursor', String(end))
    return {
      status: 200,
      ...(end < entries.length ? { headers: { link: `<${next.href}>; rel="next"` } } : {}),
      body: entries.slice(start, end),
    }
  }

  function listed(files: ReadonlyMap<string, StoredFile>, folder: string, isRecursive: boolean): Listed[] {
    const prefix = folder === '' ? '' : `${folder}/`
    const inside = [...files.values()].filter(({ path }) => path.startsWith(prefix))
    const folders = new Set<string>()
    for (const { path } of inside) {
      const elements = path.slice(prefix.length).split('/').slice(0, -1)
      elements.forEach((_, index) => folders.add(prefix + elements.slice(0, index + 1).join('/')))
    }
    const isShown = (path: string): boolean => isRecursive || !path.slice(prefix.length).includes('/')
    return [
      ...[...folders].filter(isShown).map((path) => ({ type: 'directory', oid: sha1(path), size: 0, path })),
      ...inside.filter(({ path }) => isShown(path)).map(entry),
    ].sort((a, b) => (a.path < b.path ? -1 : 1))
  }

  function find(
    name: string,
    revision: string,
    token: string | undefined,
  ): Answer | { repo: Repo; commit: string; files: ReadonlyMap<string, StoredFile> } {
    const repo = repos.get(name.toLowerCase())
    if (repo === undefined || (repo.options.private === true && !isGranted(repo, token))) {
      return token === undefined
        ? refusal(401, 'RepoNotFound', 'Invalid username or password.')
        : refusal(404, 'RepoNotFound', 'Repository not found')
    }
    const commit = repo.revisions.get(revision) ?? (revision === 'HEAD' ? repo.revisions.get('main') : revision) ?? ''
    const files = repo.commits.get(commit)
    if (files === undefined) return refusal(404, 'RevisionNotFound', `Invalid rev id: ${revision}`)
    return { repo, commit, files }
  }

  async function answerFile(
    request: IncomingMessage,
    response: ServerResponse,
    asked: { name: string; revision: string; path: string; token: string | undefined; direct: boolean },
  ): Promise<void> {
    const found = find(asked.name, decodeURIComponent(asked.revision), asked.token)
    if ('status' in found) {
      if (loginPage === undefined) send(response, found)
      else response.writeHead(302, { location: loginPage }).end()
      return
    }
    const { repo, commit, files } = found
    const commitHeader = { 'x-repo-commit': commit }
    if (repo.options.gated === true && !isGranted(repo, asked.token)) {
      const message = `Access to model ${repo.name} is restricted.`
      if (loginPage === undefined) send(response, refusal(asked.token === undefined ? 401 : 403, 'GatedRepo', message))
      else response.writeHead(302, { location: loginPage }).end()
      return
    }
    const file = files.get(asked.path.split('/').map(decodeURIComponent).join('/'))
    if (file === undefined) {
      send(response, { ...refusal(404, 'EntryNotFound', 'Entry not found') })
      return
    }
    if (file.lfs) {
      const location = `${cdnOrigin}/${file.sha256}?response-content-disposition=attachment&Signature=signed`
      const headers = {
        ...commitHeader,
        location,
        'x-linked-etag': `"${file.sha256}"`,
        'x-linked-size': String(file.size),
      }
      response.writeHead(302, headers).end(`Found. Redirecting to ${location}`)
    } else if (!asked.direct) {
      const location = `${prefix}/api/resolve-cache/models/${repo.name}/${commit}/${asked.path}`
      response.writeHead(307, { ...commitHeader, location, 'x-linked-etag': `"${file.gitOid}"` }).end()
    } else {
      await sendFile(request, response, file, { ...commitHeader, etag: `"${file.gitOid}"` }, 0, undefined)
    }
  }

  /** As an object store behind a signed address: it takes a signature or an Authorization, never both. */
  async function answerCdn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests.push(seen('cdn', request))
    const url = new URL(request.url ?? '/', cdnOrigin)
    const file = blobs.get(url.pathname.slice(1))
    if (request.headers.authorization !== undefined) {
      response.writeHead(400).end('Only one auth mechanism allowed')
    } else if (url.searchParams.get('Signature') !== 'signed' || file === undefined) {
      response.writeHead(403).end('AccessDenied')
    } else {
      await sendFile(request, response, file, { etag: `"${file.sha256}"` }, cdn.throttle, cdn.drops.shift())
    }
  }
}

async function listen(
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
  identity: Identity | undefined,
): Promise<{ port: number; close: () => Promise<void> }> {
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : new Error(String(error)))
    })
  }
  const server =
    identity === undefined
      ? createServer(onRequest)
      : createSecureServer({ key: identity.key, cert: identity.certificate }, onRequest)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
  return {
    port,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

/** Sends the whole file or the one range that was asked for (`If-Range` respected). */
async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  file: StoredFile,
  headers: Record<string, string> & { etag: string },
  throttle: number,
  dropAfter: number | undefined,
): Promise<void> {
  const { range, 'if-range': ifRange } = request.headers
  const asked = ifRange === undefined || ifRange === headers.etag ? /^bytes=(\d+)-(\d*)$/.exec(range ?? '') : null
  const from = asked === null ? 0 : Number(asked[1])
  const to = asked === null || asked[2] === '' ? file.size - 1 : Math.min(Number(asked[2]), file.size - 1)
  if (asked !== null && from > to) {
    response.writeHead(416, { ...headers, 'content-range': `bytes */${file.size}` }).end()
    return
  }
  response.writeHead(asked === null ? 200 : 206, {
    ...headers,
    'accept-ranges': 'bytes',
    'content-type': 'application/octet-stream',
    'content-length': to - from + 1,
    ...(asked === null ? {} : { 'content-range': `bytes ${from}-${to}/${file.size}` }),
  })
  if (request.method === 'HEAD' || file.size === 0) {
    response.end()
    return
  }
  const end = dropAfter === undefined ? to : Math.min(to, from + dropAfter - 1)
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  try {
    await pipeline(paced(bytes(file.content, from, end), throttle, gone.signal), response, { end: false })
  } catch (error) {
    if (gone.signal.aborted) return
    throw error
  }
  if (dropAfter === undefined) response.end()
  else response.socket?.destroySoon()
}

function bytes(content: HubContent, start: number, end: number): Readable {
  if (end < start) return Readable.from([])
  return Buffer.isBuffer(content)
    ? Readable.from(slices(content.subarray(start, end + 1)))
    : createReadStream(content.file, { start, end })
}

function* slices(content: Buffer): Generator<Buffer> {
  for (let at = 0; at < content.length; at += 65_536) yield content.subarray(at, at + 65_536)
}

async function* paced(chunks: Readable, throttle: number, gone: AbortSignal): AsyncGenerator<Buffer> {
  const startedAt = performance.now()
  const pieceBytes = throttle === 0 ? Infinity : Math.max(1, Math.ceil(throttle / 20))
  let sent = 0
  for await (const chunk of chunks as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      const piece = chunk.subarray(at, at + pieceBytes)
      yield piece
      sent += piece.length
      const dueMs = throttle === 0 ? 0 : startedAt + (sent * 1000) / throttle - performance.now()
      if (dueMs > 1) await delay(dueMs, undefined, { signal: gone })
    }
  }
}

async function storedFile(path: string, content: HubContent): Promise<StoredFile> {
  const lfs = lfsName.test(path)
  const size = Buffer.isBuffer(content) ? content.length : (await stat(content.file)).size
  const hash = createHash('sha256')
  if (Buffer.isBuffer(content)) hash.update(content)
  else for await (const chunk of createReadStream(content.file)) hash.update(chunk as Buffer) // no encoding: Buffers
  const sha256 = hash.digest('hex')
  const git = createHash('sha1')
  if (lfs) {
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${sha256}\nsize ${size}\n`
    git.update(`blob ${pointer.length}\0${pointer}`)
  } else {
    git.update(`blob ${size}\0`).update(Buffer.isBuffer(content) ? content : await readFile(content.file))
  }
  return { path, content, size, sha256, gitOid: git.digest('hex'), lfs }
}

function entry({ path, size, sha256, gitOid, lfs }: StoredFile): { path: string } & Record<string, unknown> {
  return {
    type: 'file',
    oid: gitOid,
    size,
    ...(lfs ? { lfs: { oid: sha256, size, pointerSize: 135 } } : {}),
    path,
  }
}

function info(
  { name, options, revisions }: Repo,
  commit: string,
  files: ReadonlyMap<string, StoredFile>,
  query: URLSearchParams,
): Record<string, unknown> {
  const all: Record<string, unknown> = {
    sha: commit,
    private: options.private === true && options.isCalledPublic !== true,
    gated: options.gated === true && options.isCalledPublic !== true ? 'manual' : false,
    lastModified: new Date(Date.UTC(2026, 0, revisions.size)).toISOString(),
    downloads: 1,
    likes: 0,
    tags: ['gguf'],
    siblings: [...files.keys()].map((rfilename) => ({ rfilename })),
  }
  const expand = query.getAll('expand')
  const shown =
    expand.length === 0 ? all : Object.fromEntries(Object.entries(all).filter(([key]) => expand.includes(key)))
  return { _id: sha1(name).slice(0, 24), id: name, ...shown }
}

function isGranted({ options }: Repo, token: string | undefined): boolean {
  return token !== undefined && (options.grantedTo ?? []).includes(token)
}

function refusal(status: number, code: string | undefined, message: string): Answer {
  const headers = { 'x-error-message': message, ...(code === undefined ? {} : { 'x-error-code': code }) }
  return { status, headers, body: { error: message } }
}

function send(response: ServerResponse, { status, headers = {}, body }: Answer): void {
  response
    .writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers })
    .end(JSON.stringify(body))
}

function seen(server: SeenHubRequest['server'], { method = '', url = '', headers }: IncomingMessage): SeenHubRequest {
  return { server, method, path: url, headers }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += String(chunk)
  return text
}

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex')
}
