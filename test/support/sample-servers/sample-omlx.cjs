// A SAMPLE of oMLX 0.6.3, not an inference server: it lists the models in its folders, loads and unloads them by its HTTP and makes up every answer.
// Variables: OMLX_BASE_PATH, whose settings.json has port, folders and key; SAMPLE_SCRIPT, see OmlxScript in omlx.ts. On SIGHUP it reads its folders again.
// While its folder has a file admin-fails, what an administrator asks of it fails.
const { existsSync, readdirSync, readFileSync, statSync } = require('node:fs')
const { createServer } = require('node:http')
const { join } = require('node:path')
const { setTimeout } = require('node:timers')
const { URL } = require('node:url')
const { say, json, text, body, chatShape, complete } = require('./sample-answers.cjs')

/** As a person starts it, or with a key and folders of its own. */
const flags = new Map()
const known = ['--base-path', '--model-dir', '--host', '--port']
const words = process.argv[2] === 'serve' ? process.argv.slice(3) : []
for (let at = 0; at < words.length; at += 2) {
  if (!known.includes(words[at])) {
    say(`omlx: error: unrecognized arguments: ${words[at]}`)
    process.exit(2)
  }
  flags.set(words[at], words[at + 1])
}
const base = flags.get('--base-path') ?? process.env.OMLX_BASE_PATH
const { loadMs = 0, preloadMs = 0, tokenMs, startMs = 0 } = JSON.parse(process.env.SAMPLE_SCRIPT || '{}')
let lastSaved = '{}'
/** A file that is being written says what it said before. */
const readSaved = () => {
  const text = readFileSync(join(base, 'settings.json'), 'utf8')
  if (text.endsWith('}') || text.endsWith('}\n')) lastSaved = text
  return JSON.parse(lastSaved)
}
const settings = () => {
  const saved = readSaved()
  if (!flags.has('--port')) return saved
  const [port, folders] = [Number(flags.get('--port')), flags.get('--model-dir').split(',')]
  return { ...saved, server: { port }, model: { model_dirs: folders } }
}
const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const session = `session-${process.pid}`

/** What loads waits for the load before it. */
let pool = later(preloadMs)
let isPreloading = preloadMs > 0
void pool.then(() => (isPreloading = false))

const models = new Map()
let total = 0

const isModel = (folder) => existsSync(join(folder, 'config.json'))
const foldersIn = (folder) =>
  readdirSync(folder)
    .filter((name) => !name.startsWith('.'))
    .sort()
    .map((name) => join(folder, name))
    .filter((one) => statSync(one).isDirectory())

/** One or two levels deep; the first of a name counts, and what failed may be tried again. */
function discover() {
  const found = settings()
    .model.model_dirs.flatMap(foldersIn)
    .flatMap((folder) => (isModel(folder) ? [folder] : foldersIn(folder).filter(isModel)))
  const kept = new Map([...models].filter(([, { loaded, is_loading: isLoading }]) => loaded || isLoading))
  models.clear()
  for (const folder of found) {
    const id = folder.split('/').at(-1)
    if (models.has(id)) continue
    const weights = readdirSync(folder).filter((name) => name.endsWith('.safetensors'))
    const size = weights.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
    const fresh = { id, model_path: folder, loaded: false, is_loading: false, estimated_size: Math.ceil(size * 1.05) }
    models.set(id, kept.get(id) ?? { ...fresh, actual_size: null, last_access: null, streams: new Set() })
  }
  for (const [id, model] of kept) if (!models.has(id)) models.set(id, model)
}

const refuse = (status, message) => Object.assign(new Error(message), { status })

async function load(model) {
  const turn = pool.then(async () => {
    if (model.failure) {
      const again = 'Reload models after fixing the files to retry.'
      throw refuse(409, `Model '${model.id}' is unavailable after a previous load failure: ${model.failure}. ${again}`)
    }
    if (model.loaded) return
    const { model_type: type } = JSON.parse(readFileSync(join(model.model_path, 'config.json'), 'utf8'))
    model.is_loading = true
    await later(loadMs)
    model.is_loading = false
    if (type !== 'llama') {
      model.failure = `Model type ${type} not supported.`
      throw refuse(
        409,
        `Model '${model.id}' failed to load: ${model.failure}. Reload models after fixing the files to retry.`,
      )
    }
    say(`Loaded model: ${model.id}`)
    Object.assign(model, { loaded: true, actual_size: model.estimated_size + 1_000, last_access: Date.now() / 1_000 })
  })
  pool = turn.catch(() => undefined)
  await turn
}

/** Whoever is being answered is cut off. */
function unload(model) {
  Object.assign(model, { loaded: false, actual_size: null })
  for (const stream of model.streams) stream.destroy()
}

const busy = () => [...models.values()].reduce((sum, { streams }) => sum + streams.size, 0)

function requireKey({ headers }) {
  const { api_key: key } = settings().auth
  if (!key) return
  const shown = /^Bearer (.*)$/.exec(headers.authorization ?? '')?.[1] ?? headers['x-api-key']
  if (shown === undefined) throw refuse(401, 'API key required')
  if (shown !== key) throw refuse(401, 'Invalid API key')
}

/** As requests name it: in any case, where none has it exactly. */
const meant = (name) =>
  models.get(name) ?? [...models.values()].find(({ id }) => id.toLowerCase() === name.toLowerCase())

async function chat(request, response) {
  const asked = await body(request)
  const { model: name } = JSON.parse(asked.toString() || '{}')
  const model = meant(name ?? '')
  if (!model) throw refuse(404, `Model '${name}' not found. Available models: ${[...models.keys()].join(', ')}`)
  await load(model)
  total += 1
  model.last_access = Date.now() / 1_000
  model.streams.add(response)
  try {
    await complete([asked], response, chatShape(model.id), tokenMs)
  } finally {
    model.streams.delete(response)
  }
}

async function answer(request, response) {
  const { pathname } = new URL(request.url, 'http://sample')
  const [, verb] = /^\/v1\/models\/[^/]+\/(load|unload)$/.exec(pathname) ?? []
  if (request.method === 'GET' && pathname === '/health') {
    const status = isPreloading ? 'loading' : 'healthy'
    return json(response, isPreloading ? 503 : 200, { status, default_model: null, engine_pool: {}, mcp: null })
  }
  if (request.method === 'POST' && pathname === '/admin/api/login') {
    const { api_key: key } = JSON.parse((await body(request)).toString())
    if (key !== settings().auth.api_key) throw refuse(401, 'Invalid API key')
    response.setHeader('set-cookie', `omlx_admin_session=${session}; HttpOnly; SameSite=lax`)
    return json(response, 200, { success: true })
  }
  if (request.method !== 'GET' && pathname.startsWith('/admin/api/')) {
    if (request.headers.cookie !== `omlx_admin_session=${session}`) throw refuse(401, 'Admin authentication required')
    if (existsSync(join(base, 'admin-fails'))) throw refuse(500, 'Reload failed')
    if (request.method !== 'POST' || pathname !== '/admin/api/reload') throw refuse(404, 'Not Found')
    discover()
    return json(response, 200, { status: 'ok' })
  }
  if (pathname.startsWith('/admin')) return text(response, 'an admin page, for anybody')
  requireKey(request)
  switch (`${request.method} ${pathname}`) {
    case 'GET /api/status':
      return json(response, 200, {
        status: 'ok',
        version: '0.6.3',
        active_requests: busy(),
        waiting_requests: 0,
        total_requests: total,
      })
    case 'GET /v1/models':
      return json(response, 200, { object: 'list', data: [...models.keys()].map((id) => ({ id, object: 'model' })) })
    case 'GET /v1/models/status': {
      const listed = [...models.values()].map(({ streams: _streams, failure: _failure, ...model }) => model)
      const profiles = listed.slice(0, 1).map((one) => ({ ...one, id: `${one.id}:fast`, source_model_id: one.id }))
      return json(response, 200, { models: [...listed, ...profiles, { ...builtin }] })
    }
    case 'POST /v1/chat/completions':
      return chat(request, response)
  }
  const id = decodeURIComponent(pathname.split('/')[3] ?? '')
  if (request.method !== 'POST' || verb === undefined) throw refuse(404, 'Not Found')
  const model = models.get(id)
  if (!model) throw refuse(404, `Model not found: ${id}`)
  if (verb === 'load') await load(model)
  else if (model.loaded) unload(model)
  else throw refuse(400, `Model not loaded: ${id}`)
  return json(response, 200, { status: 'ok', model_id: id })
}

const builtin = {
  id: 'markitdown',
  model_path: 'builtin://markitdown',
  loaded: true,
  is_loading: false,
  estimated_size: 0,
  last_access: null,
}

discover()
process.on('SIGHUP', discover)
const server = createServer((request, response) => {
  answer(request, response).catch(({ status = 500, message }) => {
    if (response.headersSent) return response.destroy()
    const isBelowV1 = request.url.startsWith('/v1/')
    return json(
      response,
      status,
      isBelowV1 ? { error: { message, type: 'server_error', param: null, code: null } } : { detail: message },
    )
  })
})
setTimeout(
  () => server.listen(settings().server.port, '127.0.0.1', () => say(`Server initialized with ${models.size} models`)),
  startMs,
)
// It waits for open streams.
process.on('SIGTERM', () => {
  const untilQuiet = () => (busy() === 0 ? process.exit(0) : setTimeout(untilQuiet, 20))
  untilQuiet()
})
