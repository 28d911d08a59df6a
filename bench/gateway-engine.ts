import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'

/**
 * An engine that only answers: a short answer at once, or a stream of as many tokens as it is asked for, each so many milliseconds after the
 * one before. Tells its port on its first line.
 */
const token = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'hello' } }], object: 'chat.completion.chunk' })}\n\n`
const answer = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 },
})

const server = createServer((request, response) => {
  void text(request).then(async (body) => {
    const { stream, tokens, everyMs } = JSON.parse(body) as { stream: boolean; tokens: number; everyMs: number }
    if (!stream) {
      response.setHeader('content-type', 'application/json').end(answer)
      return
    }
    response.setHeader('content-type', 'text/event-stream')
    const began = performance.now()
    for (let sent = 0; sent < tokens; sent += 1) {
      const early = began + sent * everyMs - performance.now()
      if (early > 0) await delay(early)
      response.write(token)
    }
    response.end('data: [DONE]\n\n')
  })
})
// A connection that waits for its turn is not to be closed.
server.keepAliveTimeout = 0
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
