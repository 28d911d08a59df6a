#!/bin/sh
':' //; case " $* " in *' --help '*) echo 'sample-server: --model --host --port --mlock --metrics --n-gpu-layers --ctx-size --parallel --flash-attn --cache-type-k --cache-type-v --cpu-moe --n-cpu-moe --no-kv-offload --override-tensor --override-kv --threads --batch-size --ubatch-size --no-warmup --jinja --reranking --embedding --pooling --cache-ram --alias --rope-scaling --rope-scale --yarn-orig-ctx --reasoning-budget --reasoning-budget-message --mmproj and the rest of llama-server'; exit ;; esac
':' //; case " $* " in *' --version '*) echo 'version: 0 (sample)'; exit ;; esac
':' //; exec node "$0" "$@"
// A SAMPLE, not an inference server: it takes llama-server's arguments, speaks its HTTP and makes up every answer.
// It misbehaves on request: see SampleScript in sample.ts. The script is JSON, in the variable SAMPLE_SCRIPT or after --sample-script.
// Tests start it thousands of times: the shell answers what every agent asks first, and what is required loads in half the time of imports.
const { Buffer } = require('node:buffer')
const { spawn } = require('node:child_process')
const { createServer } = require('node:http')
const { basename } = require('node:path')
const { setInterval, setTimeout } = require('node:timers')
const { URL } = require('node:url')
const { write, say, json, text, counts, counted, chatShape, complete } = require('./sample-answers.cjs')

const startedAt = Date.now()
const args = process.argv.slice(2)
const argument = (name) => {
  const at = args.lastIndexOf(name)
  return at === -1 ? undefined : args[at + 1]
}
const script = { ...JSON.parse(process.env.SAMPLE_SCRIPT || '{}'), ...JSON.parse(argument('--sample-script') ?? '{}') }
const host = argument('--host') ?? '127.0.0.1'
const port = script.wrongPort ? 0 : Number(argument('--port') ?? 8080)
const model = argument('--alias') ?? basename(argument('--model') ?? 'sample.gguf')
const slots = Number(argument('--parallel') ?? 1)

/** Every page is written, so that it is really there. */
globalThis.taken = Buffer.alloc((script.takeMiB ?? 0) * 1024 * 1024, 1)

const seen = { probes: 0, looks: 0, endlessBytes: 0 }
let hung = false
let loadedAt = startedAt + (script.loadMs ?? 0)

process.on('SIGTERM', () => {
  if (script.ignoreSigterm) return say('ignoring SIGTERM')
  say('srv    operator(): operator(): cleaning up before exit...')
  process.exit(0)
})

say('sample server: this is not llama-server, every answer is made up')
if (script.crashAtStart) crash(script.crashAtStart)
else if (script.grandchild && process.env.SAMPLE_GRANDCHILD !== '1') startGrandchild(script.grandchild)
else setTimeout(listen, script.listenAfterMs ?? 0)

if (script.crashAfterMs !== undefined) setTimeout(() => crash(script.crash ?? {}), script.crashAfterMs)
if (script.hangAfterMs !== undefined) setTimeout(() => (hung = true), script.hangAfterMs)
if (script.spinAfterMs !== undefined) setTimeout(spin, script.spinAfterMs)
if (script.stallLoadAfterMs !== undefined) setTimeout(() => (loadedAt = Infinity), script.stallLoadAfterMs)
if (script.noise) makeNoise(script.noise)

function spin() {
  for (;;) counts.tokens++
}

function crash({ message = 'sample server: error: crashing as scripted', exitCode = 1, signal }) {
  say(message)
  if (signal) process.kill(process.pid, signal)
  else process.exit(exitCode)
}

/** The child serves, this process only waits: like a wrapper around the real server. */
function startGrandchild({ ownGroup = false, ignoreSigterm = false }) {
  const child = spawn(process.execPath, [process.argv[1], ...args], {
    stdio: 'inherit',
    detached: ownGroup,
    env: {
      ...process.env,
      SAMPLE_GRANDCHILD: '1',
      SAMPLE_SCRIPT: JSON.stringify({ ...script, ignoreSigterm }),
    },
  })
  say(`sample server: grandchild ${child.pid}`)
}

function makeNoise({ lines = 0, lineBytes = 100, binary = false, everyMs }) {
  const line = binary ? Buffer.alloc(lineBytes, '\0\x1b[31m\xff\xfe\n', 'latin1') : Buffer.alloc(lineBytes, 'x')
  const burst = () => {
    for (let n = 0; n < lines; n++) {
      write(1, line)
      write(1, '\n')
    }
  }
  burst()
  if (everyMs !== undefined) setInterval(burst, everyMs)
}

function listen() {
  const server = createServer((request, response) => {
    if (hung) return
    answer(request, response).catch((error) => {
      say(`sample server: a request failed: ${error}`)
      response.destroy()
    })
  })
  server.on('error', (error) => {
    say(`srv    load_model: couldn't bind HTTP server socket, hostname: ${host}, port: ${port} (${error.code})`)
    process.exit(1)
  })
  server.listen(port, host, () => say(`main: server is listening on http://${host}:${server.address().port}`))
  if (script.loadMs && !script.quietLoad) sayProgress()
}

function sayProgress() {
  const timer = setInterval(() => {
    if (loadedAt === Infinity) return
    if (isLoading()) return say(`load_tensors: ${Math.round((Date.now() - startedAt) / 10)} tensors`)
    say('main: model loaded')
    timer.close()
  }, 20)
}

const isLoading = () => Date.now() < loadedAt

async function answer(request, response) {
  const { pathname } = new URL(request.url, 'http://sample')
  const isProbe = pathname === '/health' || pathname === '/v1/health'
  if (isLoading())
    return json(response, 503, { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } })
  if (isProbe) seen.probes++
  if (isProbe) return json(response, script.healthStatus ?? 200, { status: 'ok' })
  switch (`${request.method} ${pathname}`) {
    case 'GET /v1/models':
      return json(response, 200, { object: 'list', data: [{ id: model, object: 'model', owned_by: 'sample' }] })
    case 'GET /metrics':
      seen.looks++
      if (script.noMetrics) return json(response, 501, { error: { code: 501, type: 'not_supported_error' } })
      return oddMetrics[script.oddMetrics]?.(response) ?? text(response, metrics())
    case 'GET /sample':
      return json(response, 200, seen)
    case 'GET /slots':
      return json(
        response,
        200,
        Array.from({ length: slots }, (_, id) => ({ id, is_processing: id < counts.busy, sample: true })),
      )
    case 'POST /v1/chat/completions':
      return finish(chatShape(model), request, response)
    case 'POST /completion':
      return finish(completionShape, request, response)
    default:
      return json(response, 404, { error: { code: 404, message: 'File Not Found', type: 'not_found_error' } })
  }
}

async function finish(shape, request, response) {
  await counted(() => complete(request, response, shape, script.tokenMs))
  if (counts.requests === script.crashAfterRequests) crash(script.crash ?? {})
}

const completionShape = {
  whole: (content, timings) => ({ content, model, stop: true, tokens_predicted: timings.predicted_n, timings }),
  part: (content) => ({ content, stop: false }),
  last: (timings) => ({ content: '', stop: true, timings }),
  end: '',
}

const metrics = () =>
  [
    ['prompt_tokens_total', 'counter', counts.requests * 8],
    ['prompt_seconds_total', 'counter', counts.requests / 1_000],
    ['tokens_predicted_total', 'counter', counts.tokens],
    ['tokens_predicted_seconds_total', 'counter', counts.generationMs / 1_000],
    ['requests_processing', 'gauge', counts.busy],
    ['requests_deferred', 'gauge', 0],
  ]
    .map(([name, type, value]) => `# TYPE llamacpp:${name} ${type}\nllamacpp:${name} ${value}\n`)
    .join('')

/** Each answers instead of the counters. */
const oddMetrics = {
  page: (response) => {
    text(response, '<html><body>llamacpp:requests_processing 1</body></html>')
    return true
  },
  impossible: (response) => {
    const lines = ['requests_processing NaN', 'requests_deferred -1', 'tokens_predicted_total 1e999']
    text(response, lines.map((line) => `llamacpp:${line}\n`).join(''))
    return true
  },
  endless: (response) => {
    const piece = Buffer.alloc(64 * 1024, 'llamacpp:requests_processing 1\n')
    seen.endlessBytes = 0
    const more = () => {
      while (!response.destroyed && seen.endlessBytes < 50 * 1024 * 1024) {
        seen.endlessBytes += piece.length
        if (!response.write(piece)) return response.once('drain', more)
      }
      return response.end()
    }
    more()
    return true
  },
  silent: () => true,
}
