import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { answerOf } from '../../../../src/installation/migration/migrate.ts'

test('a completion whose answer never ends is not read to its end, and its connection is given up', async () => {
  const { promise: hungUp, resolve: hangUp } = Promise.withResolvers<undefined>()
  const server = createServer((request, response) => {
    if (request.url === '/health') return response.end('{}')
    response.on('close', () => hangUp(undefined))
    const more = (): void => void (response.destroyed || response.write(' '.repeat(65_536), more))
    more()
    return undefined
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
    expect(await answerOf('127.0.0.1', port, undefined)).toBe('answers a completion')
    await hungUp
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
})
