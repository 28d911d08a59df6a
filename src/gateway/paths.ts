/** What a client may ask of an engine: by runtime, method and path, as LLMKube 0.10 lists it. */

const common = [
  ...['GET /health', 'GET /v1/models', 'GET /metrics'],
  ...['POST /v1/chat/completions', 'POST /v1/completions', 'POST /v1/embeddings', 'POST /v1/responses'],
]

function post(path: string): string {
  return `POST ${path}`
}

const llamaServer = [
  ...['/completion', '/completions', '/tokenize', '/detokenize', '/apply-template', '/embedding', '/embeddings'],
  ...['/infill', '/rerank', '/reranking', '/v1/rerank', '/v1/messages', '/v1/messages/count_tokens'],
].map(post)

const vllmSwift = [
  ...['/tokenize', '/detokenize', '/v1/messages', '/pooling', '/score', '/v1/score', '/rerank', '/v1/rerank'],
  '/v2/rerank',
].map(post)

/** Its lists name all models that the person has, and what it shows of one says where that lies. */
const keptFromClients = ['/api/tags', '/api/ps', '/api/show']
const ollama = [
  ...['GET /', 'GET /health', 'GET /api/version'],
  ...['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses', '/v1/messages'].map(post),
  ...['/api/chat', '/api/generate', '/api/embed', '/api/embeddings'].map(post),
]

/** Its list of models names all that the person has; the rest of what it has loads, unloads, searches the web, or runs tools. */
const omlx = [
  'GET /health',
  ...['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses', '/v1/rerank'].map(post),
  ...['/v1/messages', '/v1/messages/count_tokens'].map(post),
]

const withCommon = (...more: string[]): ReadonlySet<string> => new Set([...common, ...more])

/** A runtime that is not here may be asked nothing. */
const allowed: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['llama-server', withCommon(...llamaServer, 'GET /props', 'GET /models')],
  ['llamacpp', withCommon(...llamaServer, 'GET /props', 'GET /models')],
  ['vllm-swift', withCommon(...vllmSwift, 'GET /version', 'GET /ping')],
  ['ollama', new Set(ollama)],
  // Its list of models names all that the person has.
  ['mlx-lm', new Set(['GET /health', 'POST /v1/chat/completions', 'POST /v1/completions'])],
  ['mlx-server', withCommon()],
  ['omlx', new Set(omlx)],
  ['tensorfold', withCommon()],
])

const pathsOfEngines: ReadonlySet<string> = new Set([
  ...[...allowed.values()].flatMap((entries) => [...entries].map((entry) => entry.replace(/^\S+ /, ''))),
  ...keptFromClients,
])

/** Whether anything may be asked of it. */
export const isKnownRuntime = (runtime: string): boolean => allowed.has(runtime)

/** A request's target as it was sent, and its path as it is meant. */
export interface Target {
  /** Escaped, without the query. */
  readonly sent: string
  readonly path: string
  /** With its question mark; empty where there is none. */
  readonly query: string
}

/**
 * Undefined where a proxy and an engine could read the path in two ways: not absolute, encoded twice, with an encoded slash, an empty segment,
 * `.` or `..`, a slash at its end, a backslash or a control character.
 */
export function targetOf(url: string): Target | undefined {
  const at = url.indexOf('?')
  const sent = at === -1 ? url : url.slice(0, at)
  const path = decoded(sent)
  if (path === undefined || /%2f/i.test(sent) || /[\p{Cc}\\%#?]/u.test(path)) return undefined
  const segments = path.split('/').slice(1)
  if (!path.startsWith('/') || (path !== '/' && segments.some((one) => ['', '.', '..'].includes(one)))) return undefined
  return { sent, path, query: at === -1 ? '' : url.slice(at) }
}

/** Exact and case-sensitive: HEAD and OPTIONS are not GET. */
export function isAllowed(runtime: string, method: string, path: string): boolean {
  const entries = allowed.get(runtime)
  if (!entries) return false
  return entries.has(`${method} ${path}`) || (method === 'GET' && isModelPath(path) && entries.has('GET /v1/models'))
}

/** What the engine is asked: Ollama has no `/health`, and one that runs says its version. */
export const enginePath = (runtime: string, { path, sent, query }: Target): string =>
  runtime === 'ollama' && path === '/health' ? '/api/version' : `${sent}${query}`

/** The status of the answer says it all: the rest of oMLX's tells which model the person has for a default, and what tools. */
export const isStatusAlone = (runtime: string, { path }: Target): boolean => runtime === 'omlx' && path === '/health'

/** Whether some engine has it, whatever the method: such a path names no service. What stands at `/` every engine has its own of. */
export const isPathOfEngines = (path: string): boolean =>
  path !== '/' && (pathsOfEngines.has(path) || isModelPath(path))

/** `/v1/models/{id}`, of one segment. */
export const modelInPath = (path: string): string | undefined => /^\/v1\/models\/([^/;]+)$/.exec(path)?.[1]

/** The service, as namespace/name, that `GET /v1/models/{id}` is about; clients send its slash escaped or as it is. */
export function serviceAsModelIn(url: string): string | undefined {
  const [, namespace, name] = /^\/v1\/models\/([^/?;%]+)(?:\/|%2f)([^/?;%]+)$/i.exec(url) ?? []
  return name === undefined ? undefined : `${namespace}/${name}`
}

const isModelPath = (path: string): boolean => modelInPath(path) !== undefined

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch (error) {
    if (error instanceof URIError) return undefined
    throw error
  }
}
