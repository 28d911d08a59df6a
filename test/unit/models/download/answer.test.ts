import { expect, test } from 'vitest'
import { asAskedOnce } from '../../../../src/agent-core/models/errors.ts'
import { connectionError, meaningOf, refusal, truncated } from '../../../../src/agent-core/models/download/answer.ts'

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

const noHeaders = new Headers()

test.each([
  ['as long as it says', '100', 'part'],
  ['without a length', undefined, 'part'],
  ['longer than it says', '101', 'contradicts itself (Content-Range bytes 0-99/200 with Content-Length 101)'],
  ['shorter than it says', '99', 'contradicts itself (Content-Range bytes 0-99/200 with Content-Length 99)'],
])('a part that is %s', (_, length, expected) => {
  const headers = new Headers({
    'content-range': 'bytes 0-99/200',
    ...(length !== undefined && { 'content-length': length }),
  })
  const question = { range: [0, 100], known: {}, begun: false, isVouchedFor: false, shown: 'x.gguf', now: 0 } as const
  const meaning = () => meaningOf({ status: 206, headers }, question)
  if (expected === 'part') expect(meaning()).toMatchObject({ kind: 'part', start: 0, end: 100 })
  else expect(meaning).toThrow(expected)
})

test.each<[error: Error | undefined, sentence: string]>([
  [truncated('x.gguf', 3_000, 5_000), 'The download of x.gguf ended after 3000 of 5000 bytes; pull it again later.'],
  [
    connectionError(Object.assign(new Error('no'), { code: 'ECONNREFUSED' }), 'x.gguf'),
    'x.gguf cannot be reached (connection refused): check the address and the network; pull it again later.',
  ],
  [
    connectionError(new Error('fetch failed', { cause: Object.assign(new Error('no'), { code: 'EMFILE' }) }), 'x.gguf'),
    'x.gguf cannot be asked (this agent has reached the limit of open files and connections for one process (EMFILE)); pull it again later.',
  ],
  [
    refusal(429, noHeaders, 'x.gguf', 0),
    'x.gguf answered 429 Too Many Requests: the server limits the rate of requests; pull it again later.',
  ],
  [
    refusal(503, noHeaders, 'x.gguf', 0),
    'x.gguf answered 503 Service Unavailable: the server failed; pull it again later.',
  ],
  [refusal(404, noHeaders, 'x.gguf', 0), 'x.gguf answered 404 Not Found: correct spec.source or put the file there.'],
])('somebody who pulls once is not promised that the agent tries again', (error, sentence) => {
  expect(asAskedOnce(error?.message ?? '')).toBe(sentence)
})

test.each([
  ['says what time it has', { date: 'Tue, 24 Nov 2026 12:00:00 GMT' }, 30_000],
  ['does not', {}, 3_600_000],
])(
  'a server that names the time of the next attempt and %s is waited for by its own clock, at most an hour',
  (_, headers, waitMs) => {
    const behind = Date.parse('2026-11-23T00:00:00Z')
    const answer = new Headers({ ...headers, 'retry-after': 'Tue, 24 Nov 2026 12:00:30 GMT' })
    expect(refusal(503, answer, 'x.gguf', behind)?.retryAfterMs).toBe(waitMs)
  },
)
