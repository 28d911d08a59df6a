import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FlagError, nearest, parseGoFlags, type FlagSpec } from '../../../src/agent-core/util/go-flags.ts'
import { formatByteCount, formatDuration, parseByteCount, parseDuration } from '../../../src/contract/format.ts'

const table = {
  name: { kind: 'string', default: 'none' },
  verbose: { kind: 'bool', default: false },
  port: { kind: 'int', default: 9090 },
  fraction: { kind: 'float', default: 0.5 },
  interval: { kind: 'duration', default: 10_000 },
  title: { kind: 'string', default: '', aliasOf: 'name' },
} as const satisfies Record<string, FlagSpec>

const parse = (...args: string[]) => parseGoFlags(table, args)
const values = (...args: string[]) => Object.fromEntries(parse(...args).values)
const defaults = { name: 'none', verbose: false, port: 9090, fraction: 0.5, interval: 10_000 }

function complaint(...args: string[]): string {
  try {
    parse(...args)
  } catch (error) {
    if (error instanceof FlagError) return error.message
    throw error
  }
  return 'no complaint'
}

test.each([
  { args: [], means: {} },
  { args: ['-name', 'x'], means: { name: 'x' } },
  { args: ['--name', 'x'], means: { name: 'x' } },
  { args: ['--name=x=y'], means: { name: 'x=y' } },
  { args: ['--name='], means: { name: '' } },
  { args: ['--name', '-verbose'], means: { name: '-verbose' } },
  { args: ['--name', 'x', '--title', 'y'], means: { name: 'y' } },
  { args: ['-verbose'], means: { verbose: true } },
  { args: ['--verbose=false'], means: { verbose: false } },
  { args: ['--verbose=T', '-port=0x10'], means: { verbose: true, port: 16 } },
  { args: ['--port', '-1'], means: { port: -1 } },
  { args: ['--port', '010'], means: { port: 8 } },
  { args: ['--fraction', '.25'], means: { fraction: 0.25 } },
  { args: ['--interval', '1m30s'], means: { interval: 90_000 } },
])('$args is read as Go reads it', ({ args, means }) => {
  expect(values(...args)).toEqual({ ...defaults, ...means })
})

test('the flags end at the first word that is none, or after two dashes', () => {
  expect([
    parse('--verbose', 'status', '--port', '1'),
    parse('--', '--port', '1'),
    parse('--verbose', '-', '--port=1'),
  ]).toMatchObject([
    { given: new Set(['verbose']), rest: ['status', '--port', '1'] },
    { given: new Set(), rest: ['--port', '1'] },
    { given: new Set(['verbose']), rest: ['-', '--port=1'] },
  ])
})

test('an alias counts as the flag it stands for', () => {
  expect(parse('--title', 'x').given).toEqual(new Set(['name']))
})

test('-h and --help are understood although no table has them', () => {
  expect([parse('-h').help, parse('--help').help, parse().help]).toEqual([true, true, false])
})

test.each([
  { args: ['--prot', '1'], says: 'There is no flag --prot: did you mean --port?' },
  { args: ['--zzzzzzzzzz'], says: 'There is no flag --zzzzzzzzzz: metal-agent --help lists all flags.' },
  { args: ['--constructor'], says: 'There is no flag --constructor: metal-agent --help lists all flags.' },
  { args: ['--port'], says: '--port needs a whole number after it.' },
  { args: ['--port', '1.5'], says: '--port wants a whole number, not "1.5".' },
  { args: ['--port='], says: '--port wants a whole number, not "".' },
  { args: ['--verbose=yes'], says: '--verbose wants true or false, not "yes".' },
  { args: ['--fraction', 'half'], says: '--fraction wants a number, not "half".' },
  { args: ['--interval', '10'], says: '--interval wants a duration such as 10s, 2m or 1m30s, not "10".' },
  { args: ['---port'], says: '"---port" is not a flag; flags look like --name, --name value or --name=value.' },
  { args: ['-=1'], says: '"-=1" is not a flag; flags look like --name, --name value or --name=value.' },
])('$args is refused in one sentence', ({ args, says }) => {
  expect(complaint(...args)).toBe(says)
})

describe('durations', () => {
  test.each([
    ['500ms', 500],
    ['10s', 10_000],
    ['2m', 120_000],
    ['1h15m30.918s', 4_530_918],
    ['1.5h', 5_400_000],
    ['.5s', 500],
    ['-1m', -60_000],
    ['0', 0],
    ['250us', 0.25],
    ['1', undefined],
    ['s', undefined],
    ['1d', undefined],
    ['', undefined],
    ['1 s', undefined],
  ])('%s', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  test('what is written is read back', () => {
    fc.assert(
      fc.property(fc.integer({ min: -400_000_000, max: 400_000_000 }), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms)
      }),
    )
  })
})

describe('a size', () => {
  test.each([
    ['20Mi', 20 * 1_024 ** 2],
    ['1.5Gi', 1.5 * 1_024 ** 3],
    ['5M', 5_000_000],
    ['64k', 64_000],
    ['4096', 4_096],
    ['0.3', undefined],
    ['20MB', undefined],
    ['-1Mi', undefined],
    ['Mi', undefined],
    ['9999999999Ti', undefined],
    ['', undefined],
  ])('%s', (text, bytes) => {
    expect(parseByteCount(text)).toBe(bytes)
  })

  test('what is written is read back', () => {
    expect([0, 1_000, 65_536, 20 * 1_024 ** 2].map(formatByteCount)).toEqual(['0', '1k', '64Ki', '20Mi'])
    fc.assert(
      fc.property(fc.maxSafeNat(), (bytes) => {
        expect(parseByteCount(formatByteCount(bytes))).toBe(bytes)
      }),
    )
  })
})

test('every command line that is written out is read back, whatever its spelling', () => {
  const flag = fc.oneof(
    fc.record({ name: fc.constant('name'), value: fc.string() }),
    fc.record({ name: fc.constant('verbose'), value: fc.boolean() }),
    fc.record({ name: fc.constant('port'), value: fc.maxSafeInteger() }),
    fc.record({
      name: fc.constant('fraction'),
      value: fc.double({ noNaN: true, noDefaultInfinity: true }).map((x) => x + 0),
    }),
  )
  const spelled = fc.record({ flag, dashes: fc.constantFrom('-', '--'), inline: fc.boolean() })
  fc.assert(
    fc.property(fc.array(spelled), (flags) => {
      const args = flags.flatMap(({ flag: { name, value }, dashes, inline }) =>
        inline || name === 'verbose' ? [`${dashes}${name}=${value}`] : [`${dashes}${name}`, String(value)],
      )
      const expected = Object.fromEntries(flags.map(({ flag: { name, value } }) => [name, value]))
      expect(values(...args)).toEqual({ ...defaults, ...expected })
    }),
  )
})

test('a word too far from all flags has no nearest one', () => {
  expect([nearest('namespce', ['namespace', 'port']), nearest('x', ['namespace', 'port'])]).toEqual([
    'namespace',
    undefined,
  ])
})
