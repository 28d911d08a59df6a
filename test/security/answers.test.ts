import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { failure, gguf, request, startWorld, staying, type World } from '../unit/models/world.ts'

let world: World
beforeEach(async () => {
  world = await startWorld()
})
afterEach(async () => world[Symbol.asyncDispose]())

async function served(answer: RequestListener): Promise<AsyncDisposable & { url: string }> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
  return {
    url: `http://127.0.0.1:${port}/m.gguf`,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

const content = gguf('model', 100)

test.each([
  { range: 'bytes 0-99/50', length: 100 },
  { range: 'bytes 99-0/100', length: 100 },
  { range: 'bytes 0-199/200', length: 100 },
  { range: 'bytes 0-49/100', length: 100 },
])('an answer that says $range and a length of $length ends at once, though the server goes on', async (stated) => {
  await using server = await served((_, response) => {
    response.writeHead(206, { 'content-range': stated.range, 'content-length': stated.length })
    // All but the last byte, and then silence.
    response.write(content.subarray(0, 99))
  })
  const before = performance.now()
  const failed = await failure(world.models.ensure(request(server.url), staying()))
  expect(failed).toMatchObject({ reason: 'HttpRefused', message: expect.stringContaining(stated.range) as string })
  expect(performance.now() - before).toBeLessThan(15_000)
})
