// A SAMPLE of mlx-server 0.1.0, of vllm-swift 0.6.2 and of TensorFold 0.6.6, not an inference server: it takes their arguments and no others, is made of as
// many processes, speaks their HTTP, fails in their words and makes up every answer. Variables: SAMPLE_SCRIPT, see SampleScript in sample.ts.
const { Buffer } = require('node:buffer')
const { fork, spawn } = require('node:child_process')
const { existsSync, readdirSync, readFileSync, statSync } = require('node:fs')
const { createServer, request: ask } = require('node:http')
const { basename, join } = require('node:path')
const { setInterval, setTimeout } = require('node:timers')
const { URL } = require('node:url')
const { say, json, text, body, counts, counted, usageOf, chatShape, complete } = require('./sample-answers.cjs')

const [part, ...args] = process.argv.slice(2)
const script = JSON.parse(process.env.SAMPLE_SCRIPT || '{}')

const end = (code, ...lines) => {
  for (const line of lines) say(line)
  process.exit(code)
}

/** The values of flags, each of which takes one unless it ends with "!". */
function read(words, known, refuse) {
  const values = {}
  for (let at = 0; at < words.length; at++) {
    const [name, joined] = words[at].split(/=(.*)/s)
    const flag = known.find((one) => one.replace('!', '') === name)
    if (flag === undefined) refuse(words[at])
    values[name] = flag.endsWith('!') ? 'true' : (joined ?? words[++at])
    if (values[name] === undefined) refuse(name)
  }
  return values
}

/** What the loader finds wrong with a folder, in its words. */
function loadProblem(folder) {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) return `a real one would download ${folder} from the Hub`
  const { model_type: type } = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))
  if (type !== 'llama' && type !== 'qwen3') return `Unsupported model type: ${type}`
  const weights = readdirSync(folder).filter((name) => name.endsWith('.safetensors'))
  return weights.length === 0 ? `No safetensors found in ${folder}` : undefined
}

/** Every page is written, so that it is really there. */
const take = (folder) => {
  const sizes = readdirSync(folder).map((name) => statSync(join(folder, name)).size)
  globalThis.taken = Buffer.alloc(
    sizes.reduce((sum, size) => sum + size, (script.takeMiB ?? 0) * 1024 * 1024),
    1,
  )
}

function serve(port, host, answer, inUse) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://sample')
    answer(request, response, pathname)
  })
  server.on('error', () => end(1, inUse))
  server.listen(port, host, () => say(`INFO: Uvicorn running on http://${host}:${port}`))
  // Both finish what they were asked, and take no more.
  process.on('SIGTERM', () => {
    say('INFO: Shutting down')
    server.close(() => process.exit(0))
    server.closeIdleConnections()
  })
}

const complain = (response, status, message) => json(response, status, { error: { message, code: status } })

const finish = (request, response, shape) =>
  counted(() => complete(request, response, shape, script.tokenMs)).catch(() => response.destroy())

const parts = {
  'mlx-server'() {
    if (args[0] === '--version') end(0, '0.1.0')
    const known = ['--model', '--host', '--port', '--max-slots', '--tool-call-format', '--reasoning', '--help!', '-h!']
    const usage = 'Usage: mlx-server [--model <model>] [--host <host>] [--port <port>] [--max-slots <max-slots>] …'
    const values = read(args, known, (word) => end(64, `Error: Unknown option '${word}'`, usage))
    const help = known.filter((flag) => flag.startsWith('--')).map((flag) => `  ${flag.replace('!', '')}   …`)
    if (values['--help'] ?? values['-h']) end(0, usage, ...help)
    const model = values['--model'] ?? end(64, 'Error: --model is required (HuggingFace ID or local directory path).')
    say('2026-05-18T10:00:00+0000 info mlx-server: [MLXServerKit] loading model')
    const problem = loadProblem(model)
    if (problem !== undefined) setTimeout(() => end(1, `Error: Model load failed: ${problem}`), script.loadMs ?? 0)
    else setTimeout(listen, script.loadMs ?? 0)

    // It listens when its model is loaded, and answers one request at a time.
    function listen() {
      take(model)
      const { '--port': port = '8080', '--host': host = '127.0.0.1' } = values
      const inUse = 'Error: bind(descriptor:ptr:bytes:): Address already in use (errno: 48)'
      let turn = Promise.resolve()
      const answer = (request, response, pathname) => {
        switch (`${request.method} ${pathname}`) {
          case 'GET /health':
            return text(response, 'ok')
          case 'GET /v1/models':
            return json(response, 200, {
              object: 'list',
              data: [{ id: model, object: 'model', owned_by: 'mlx-server' }],
            })
          case 'POST /v1/chat/completions': {
            const { last, ...shape } = chatShape(model)
            const used = (timings) => ({ ...last(timings), usage: usageOf(timings.predicted_n) })
            turn = turn.then(() => finish(request, response, { ...shape, last: used }))
            return turn
          }
          default:
            return complain(response, 404, 'Not Found')
        }
      }
      serve(Number(port), host, answer, inUse)
    }
  },

  tensorfold() {
    const [command, folder, ...rest] = args
    if (command === '--version') end(0, 'tensorfold 0.6.6')
    const known = [
      ...['--host', '--port', '--name', '--alias', '--context', '--max-tokens', '--parallel', '--prompt-cache-gib'],
      ...['--snapshot-dir', '--no-drafts!', '--no-update-check!', '--help!'],
    ]
    const help = known.map((flag) => `  ${flag.replace('!', '')}   …`)
    if (command !== 'serve' || folder === '--help') end(0, 'usage: tensorfold serve [-h] DIR', ...help)
    const values = read(rest, known, (word) => end(2, `tensorfold serve: error: unrecognized arguments: ${word}`))
    const { '--host': host = '127.0.0.1', '--port': port = '8080', '--name': name = basename(folder) } = values
    const problem = loadProblem(folder)
    if (problem !== undefined) setTimeout(() => end(1, `ValueError: ${problem}`), script.loadMs ?? 0)
    else setTimeout(listen, script.loadMs ?? 0)

    // It listens when its model is loaded.
    function listen() {
      take(folder)
      serve(Number(port), host, answer, 'OSError: [Errno 48] Address already in use')
      say(`serving ${name} at http://${host}:${port}/v1`)
    }

    function answer(request, response, pathname) {
      switch (`${request.method} ${pathname}`) {
        case 'GET /health':
          return json(response, 200, { status: 'ok', requests_running: counts.busy })
        case 'GET /v1/models':
          return json(response, 200, { object: 'list', data: [{ id: name, object: 'model', owned_by: 'tensorfold' }] })
        case 'GET /metrics':
          return text(response, metrics(name, 'tensorfold', ['requests_running', 'requests_waiting']))
        case 'POST /v1/chat/completions':
          return finish(request, response, chatShape(name))
        default:
          return complain(response, 404, 'Not Found')
      }
    }
  },

  'vllm-swift'() {
    const [command, ...rest] = args
    if (command === 'version') end(0, 'vllm-swift 0.6.2', 'dylib: /sample/libVLLMBridge.dylib', 'vLLM: sample')
    if (command !== 'serve') end(command === '--help' ? 0 : 2, 'Usage:', '  vllm-swift serve <model> [args]')
    const [folder, ...passed] = rest
    const at = passed.indexOf('--port')
    const port = Number(at === -1 ? 8000 : passed[at + 1])
    const start = (enginePort) => {
      const flags = [
        ...passed.filter((_, index) => at === -1 || (index !== at && index !== at + 1)),
        '--port',
        enginePort,
      ]
      return spawn(process.execPath, [process.argv[1], 'api-server', '--model', folder, ...flags], { stdio: 'inherit' })
    }
    const config = join(folder, 'config.json')
    const reasons = existsSync(config) && JSON.parse(readFileSync(config, 'utf8')).model_type === 'qwen3'
    // Without a proxy it passes on no signal.
    if (!reasons) return void start(port).on('exit', (code) => process.exit(code ?? 1))
    say("vllm-swift: auto-detected reasoning parser 'qwen3'; injecting --reasoning-parser qwen3")
    const child = start(port + 1000)
    // It waits for what has ended, too.
    process.on('SIGTERM', () => child.kill())
    const untilReady = () =>
      ask({ port: port + 1000, path: '/health' }, () => {
        process.removeAllListeners('SIGTERM')
        serve(
          port,
          '127.0.0.1',
          pass,
          'OSError: [Errno 48] error while attempting to bind on address: address already in use',
        )
      })
        .on('error', () => setTimeout(untilReady, 100))
        .end()
    untilReady()

    function pass(request, response) {
      const { method, url, headers } = request
      const onward = ask(
        { port: port + 1000, method, path: url, headers: { ...headers, connection: 'close' } },
        (answer) => {
          response.writeHead(answer.statusCode, answer.headers)
          answer.pipe(response)
        },
      )
      onward.on('error', () =>
        response.headersSent ? response.destroy() : complain(response, 500, 'Server got itself in trouble'),
      )
      response.on('close', () => onward.destroy())
      request.pipe(onward)
    }
  },

  /** vLLM's server, with another process that computes. */
  'api-server'() {
    const known = [
      ...[
        '--model',
        '--host',
        '--port',
        '--max-model-len',
        '--max-num-seqs',
        '--additional-config',
        '--served-model-name',
      ],
      ...['--tool-call-parser', '--reasoning-parser', '--enable-auto-tool-choice!', '--seed'],
    ]
    const values = read(args, known, (word) => end(2, `api_server.py: error: unrecognized arguments: ${word}`))
    const { '--model': folder, '--host': host = '0.0.0.0', '--served-model-name': served = folder } = values
    const config = join(folder, 'config.json')
    const { max_position_embeddings: longest = Infinity } = existsSync(config)
      ? JSON.parse(readFileSync(config, 'utf8'))
      : {}
    const length = Number(values['--max-model-len'] ?? longest)
    if (length > longest) {
      const limit = `the derived max_model_len (max_position_embeddings=${longest}.0 or model_max_length=None in model's config.json)`
      end(1, `ValueError: User-specified max_model_len (${length}) is greater than ${limit}.`)
    }
    const core = fork(process.argv[1], ['engine-core', folder])
    let isStopping = false
    core.on('exit', () => {
      if (isStopping) process.exit(0)
      end(1, 'vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.')
    })
    core.once('message', () =>
      serve(Number(values['--port'] ?? 8000), host, answer, 'OSError: [Errno 48] Address already in use'),
    )
    process.once('SIGTERM', () => {
      isStopping = true
      core.kill()
    })

    function answer(request, response, pathname) {
      switch (`${request.method} ${pathname}`) {
        case 'GET /health':
          return text(response, '')
        case 'GET /v1/models':
          return json(response, 200, {
            object: 'list',
            data: [{ id: served, object: 'model', root: folder, max_model_len: length }],
          })
        case 'GET /metrics':
          return text(response, metrics(served, 'vllm', ['num_requests_running', 'num_requests_waiting']))
        case 'POST /v1/chat/completions':
          return whole(request, response)
        default:
          return complain(response, 404, 'Not Found')
      }
    }

    async function whole(request, response) {
      const asked = await body(request)
      const { model = served } = JSON.parse(asked.toString() || '{}')
      if (model !== served) return complain(response, 404, `The model \`${model}\` does not exist.`)
      await finish([asked], response, chatShape(served))
    }
  },

  /** Ends by a signal alone, whatever becomes of the others. */
  'engine-core'() {
    const [folder] = args
    const problem = loadProblem(folder)
    setTimeout(() => {
      if (problem !== undefined) end(1, `[vsm] Failed to load model: ${problem}`)
      take(folder)
      process.send('ready')
    }, script.loadMs ?? 0)
    setInterval(() => {}, 1_000_000)
  },
}

const metrics = (model, prefix, [running, waiting]) =>
  [
    [running, counts.busy],
    [waiting, 0],
    ['prompt_tokens_total', counts.requests * 8],
    ['generation_tokens_total', counts.tokens],
  ]
    .map(([name, value]) => `${prefix}:${name}{engine="0",model_name="${basename(model)}"} ${value.toFixed(1)}\n`)
    .join('')

parts[part]()
