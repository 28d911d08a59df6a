import { expect, test } from 'vitest'
import { connectionError, truncated } from '../../../../src/agent-core/models/download/answer.ts'

const url = 'https://models.example/x.gguf'
const coded = (message: string, code: string, cause?: Error) => Object.assign(new Error(message, { cause }), { code })

test('a certificate that nobody trusts is that of the proxy where the connection to the proxy failed', () => {
  const untrusted = coded('expired', 'CERT_HAS_EXPIRED')
  const ofProxy = coded('proxy', 'UND_ERR_PRX_TLS', untrusted)
  const sentences = [
    connectionError(untrusted, url, 'http://proxy:3128'),
    connectionError(ofProxy, url, 'http://proxy:3128'),
    connectionError(ofProxy, url),
  ]
  expect(sentences.map(({ message }) => message.split(' has ')[0])).toEqual([
    url,
    'the proxy http://proxy:3128',
    'the proxy',
  ])
})

test.each([
  [4, 10, '4 of 10 bytes'],
  [999_998, 999_999, '999998 of 999999 bytes'],
  [400_000, 1_000_000, '400 kB of 1.0 MB'],
  [1_999_999_999, 2_000_000_000, '1999999999 of 2000000000 bytes'],
  [4, undefined, '4 bytes'],
])('a download that ended after %s of %s bytes says %s', (done, total, extent) => {
  expect(truncated(url, done, total).message).toBe(
    `The download of ${url} ended after ${extent}: the agent tries again.`,
  )
})
