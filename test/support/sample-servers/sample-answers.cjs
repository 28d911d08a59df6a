// What all sample servers share: words that are made up, one by one, and how they are said.
const { Buffer } = require('node:buffer')
const { writeSync } = require('node:fs')
const { performance } = require('node:perf_hooks')
const { setTimeout } = require('node:timers')

/** A raw write: what was said is in the file even when the process dies in the next instant. */
const write = (fd, text) => {
  try {
    writeSync(fd, text)
  } catch (error) {
    if (error.code !== 'ENOSPC' && error.code !== 'EAGAIN') throw error
  }
}
const say = (line) => write(2, `${line}\n`)

function json(response, status, value) {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
  response.end(JSON.stringify(value))
}

function text(response, value) {
  response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' })
  response.end(value)
}

async function body(request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const words = 'This is a sample answer made up by a sample server. '.split(/(?<= )/)

/** `generationMs`: spent on the tokens that were made. */
const counts = { requests: 0, tokens: 0, generationMs: 0, busy: 0 }

const usageOf = (count) => ({ prompt_tokens: 8, completion_tokens: count, total_tokens: 8 + count })

/** How OpenAI's API says a chat completion; `timings` are llama-server's own. */
const chatShape = (model) => {
  const chunk = { id: 'chatcmpl-sample', object: 'chat.completion.chunk', model }
  return {
    whole: (content, timings) => ({
      ...chunk,
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content } }],
      usage: usageOf(timings.predicted_n),
      timings,
    }),
    part: (content) => ({ ...chunk, choices: [{ index: 0, finish_reason: null, delta: { content } }] }),
    last: (timings) => ({ ...chunk, choices: [{ index: 0, finish_reason: 'stop', delta: {} }], timings }),
    end: 'data: [DONE]\n\n',
  }
}

async function complete(request, response, shape, tokenMs = 1) {
  const asked = JSON.parse((await body(request)).toString() || '{}')
  const count = Math.min(asked.max_tokens ?? asked.n_predict ?? words.length, 4096)
  const began = Date.now()
  const timings = () => {
    const ms = Math.max(Date.now() - began, 1)
    return {
      ...{ prompt_n: 8, prompt_ms: 1, predicted_n: count, predicted_ms: ms },
      predicted_per_second: (count * 1000) / ms,
    }
  }
  if (asked.stream) response.writeHead(200, { 'content-type': 'text/event-stream' })
  let content = ''
  // As the real ones, it works for nobody who has gone.
  for (let n = 0; n < count && !response.destroyed; n++) {
    const tokenBegan = performance.now()
    await new Promise((resolve) => setTimeout(resolve, tokenMs))
    counts.generationMs += performance.now() - tokenBegan
    const word = words[n % words.length]
    counts.tokens++
    content += word
    if (asked.stream) response.write(`data: ${JSON.stringify(shape.part(word))}\n\n`)
  }
  if (!asked.stream) return json(response, 200, shape.whole(content, timings()))
  response.end(`data: ${JSON.stringify(shape.last(timings()))}\n\n${shape.end}`)
}

async function counted(serve) {
  counts.requests++
  counts.busy++
  try {
    await serve()
  } finally {
    counts.busy--
  }
}

module.exports = { write, say, json, text, body, counts, counted, usageOf, chatShape, complete }
