import fc from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createLog, type LogOptions } from '../../../src/agent-core/observability/log.ts'
import { isSecretName } from '../../../src/agent-core/util/redact.ts'
import { parseLogLevel } from '../../../src/contract/settings-table.ts'

afterEach(() => void vi.unstubAllEnvs())

function logTo(options: Partial<LogOptions> & { isTTY?: boolean } = {}) {
  const lines: string[] = []
  const stream = { isTTY: options.isTTY, write: (text: string) => lines.push(text) }
  return { log: createLog({ level: 'info', stream, ...options }), lines }
}

const parsed = (lines: string[]) => lines.map((line) => JSON.parse(line) as Record<string, unknown>)
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/

test('piped, each message is a line of JSON with its fields beside it', () => {
  const { log, lines } = logTo()
  log.info('started inference service', { namespace: 'default', name: 'qwen', port: 43_211, pid: undefined })
  expect(parsed(lines)).toEqual([
    {
      ts: expect.stringMatching(time) as unknown,
      level: 'info',
      msg: 'started inference service',
      namespace: 'default',
      name: 'qwen',
      port: 43_211,
    },
  ])
})

test('on a terminal, each message is one readable line', () => {
  vi.stubEnv('NO_COLOR', '1')
  const { log, lines } = logTo({ isTTY: true })
  log.warn('withdrew endpoint', { name: 'qwen', why: 'it stopped\nanswering', list: [1, 2], empty: '' })
  expect(lines.join('').replace(time, 'TIME')).toBe(
    'TIME WARN  withdrew endpoint name=qwen why="it stopped\\nanswering" list=[1,2] empty=""\n',
  )
})

test.each([
  ['debug', ['debug', 'info', 'warn', 'error']],
  ['info', ['info', 'warn', 'error']],
  ['warn', ['warn', 'error']],
  ['error', ['error']],
] as const)('level %s lets through %j', (level, passed) => {
  const { log, lines } = logTo({ level })
  for (const severity of ['debug', 'info', 'warn', 'error'] as const) log[severity]('x')
  expect(parsed(lines).map((line) => line['level'])).toEqual(passed)
})

test('levels are named as the Go agent names them, and what is unknown means info', () => {
  expect(['DEBUG', 'Warning', 'warn', 'Error', 'info', 'trace', ''].map(parseLogLevel)).toEqual([
    'debug',
    'warn',
    'warn',
    'error',
    'info',
    'info',
    'info',
  ])
})

describe('secrets', () => {
  test('are redacted by the name of their field at any depth, and by their look inside a text', () => {
    const { log, lines } = logTo()
    log.error('request with Bearer abcdefgh12345678 failed', {
      Authorization: 'x',
      user: { hfToken: 'x', client_secret: 'x', name: 'me' },
      headers: new Map([['authorization', 'x']]),
      url: 'https://me:pw@models.example.org/a.gguf?X-Amz-Signature=abc&part=1',
      error: new Error('GET https://u:p@h/x', { cause: new Error('token hf_abcdefghijklmnopqrstuv') }),
      tokensPerSecond: 12,
    })
    expect(parsed(lines)).toMatchObject([
      {
        msg: 'request with Bearer [redacted] failed',
        Authorization: '[redacted]',
        user: { hfToken: '[redacted]', client_secret: '[redacted]', name: 'me' },
        headers: { authorization: '[redacted]' },
        url: 'https://[redacted]@models.example.org/a.gguf?X-Amz-Signature=[redacted]&part=1',
        error: 'Error: GET https://[redacted]@h/x; caused by Error: token [redacted]',
        tokensPerSecond: 12,
      },
    ])
  })

  test.each([
    ['token', true],
    ['accessToken', true],
    ['HF_TOKEN', true],
    ['x-api-key', true],
    ['password', true],
    ['clientSecret', true],
    ['tokens', false],
    ['tokensPerSecond', false],
    ['secretary', false],
    ['name', false],
  ])('%s is the name of one: %s', (name, secret) => {
    expect(isSecretName(name)).toBe(secret)
  })
})

describe('values that are hard to print', () => {
  test('become something readable', () => {
    const cycle: { name: string; self?: unknown } = { name: 'x' }
    cycle.self = cycle
    const { log, lines } = logTo()
    log.info('x', {
      cycle,
      twice: [Number.NaN, 10n, Symbol('s'), undefined],
      at: new Date(0),
      never: new Date(Number.NaN),
      bytes: Buffer.from('abc'),
      set: new Set(['a']),
      fn: () => 1,
      get broken(): string {
        throw new Error('no')
      },
      inner: {
        get broken(): string {
          throw new Error('no')
        },
      },
      ts: 'mine',
    })
    expect(parsed(lines)).toMatchObject([
      {
        cycle: { name: 'x', self: '[circular]' },
        twice: ['NaN', '10', 'Symbol(s)', null],
        at: '1970-01-01T00:00:00.000Z',
        never: 'Invalid Date',
        bytes: '[3 bytes]',
        set: ['a'],
        fn: '[function]',
        broken: '[unreadable: no]',
        inner: { broken: '[unreadable: no]' },
        field_ts: 'mine',
      },
    ])
  })

  test('whatever the fields, each message is exactly one bounded line and nothing is thrown', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.dictionary(fc.string(), fc.anything({ withMap: true, withSet: true, withDate: true })),
        (message, fields) => {
          for (const isTTY of [false, true]) {
            const { log, lines } = logTo({ isTTY })
            log.info(message, fields)
            expect(lines.map((line) => line.indexOf('\n') === line.length - 1)).toEqual([true])
          }
        },
      ),
    )
  })
})
