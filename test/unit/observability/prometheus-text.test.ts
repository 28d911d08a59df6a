import { expect, test } from 'vitest'
import { parsePrometheusText, seriesName } from '../../support/prometheus-text.ts'

const read = (text: string) => [...parsePrometheusText(text).values()]

test('the parser reads what the exposition format allows', () => {
  const text = [
    '# HELP a Help with a \\\\ and a\\nsecond line',
    '# TYPE a gauge',
    'a{x="one \\"two\\", {three}",y="\\\\\\n"} -1.5e+3',
    'a +Inf 1700000000000',
    '# HELP b_seconds Durations',
    '# TYPE b_seconds histogram',
    'b_seconds_bucket{le="0.5"} 1',
    'b_seconds_bucket{le="+Inf"} 2',
    'b_seconds_sum 3.25',
    'b_seconds_count 2',
    '',
  ].join('\n')
  expect(read(text)).toMatchObject([
    {
      name: 'a',
      type: 'gauge',
      help: 'Help with a \\ and a\nsecond line',
      samples: [
        { name: 'a', labels: { x: 'one "two", {three}', y: '\\\n' }, value: -1500 },
        { name: 'a', labels: {}, value: Infinity },
      ],
    },
    { name: 'b_seconds', type: 'histogram', samples: [{ value: 1 }, { value: 2 }, { value: 3.25 }, { value: 2 }] },
  ])
  expect(seriesName({ name: 'a', labels: { y: '2', x: '1' }, value: 0 })).toBe('a{x="1",y="2"}')
})

const gauge = '# HELP a A\n# TYPE a gauge\n'
const histogram = '# HELP h H\n# TYPE h histogram\n'

test.each([
  ['a last line without an end', `${gauge}a 1`],
  ['a sample without HELP and TYPE', 'a 1\n'],
  ['a TYPE before its HELP', '# TYPE a gauge\n# HELP a A\na 1\n'],
  ['a second HELP', `${gauge}# HELP a A\n`],
  ['a type that is none', '# HELP a A\n# TYPE a number\n'],
  ['a family in two places', `${gauge}a{x="1"} 1\n# HELP b B\n# TYPE b gauge\nb 1\na{x="2"} 1\n`],
  ['the same series twice, with its labels in another order', `${gauge}a{x="1",y="2"} 1\na{y="2",x="1"} 1\n`],
  ['the same label twice', `${gauge}a{x="1",x="2"} 1\n`],
  ['a label without quotes', `${gauge}a{x=1} 1\n`],
  ['a quote that is not escaped', `${gauge}a{x="1"2"} 1\n`],
  ['an escape that is none', `${gauge}a{x="\\t"} 1\n`],
  ['a name that is none', `${gauge}a-b 1\n`],
  ['a value that is none', `${gauge}a undefined\n`],
  ['prom-client’s Nan', `${gauge}a Nan\n`],
  ['a counter below 0', '# HELP a A\n# TYPE a counter\na -1\n'],
  ['buckets that fall', `${histogram}h_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n`],
  [
    'buckets out of order',
    `${histogram}h_bucket{le="2"} 1\nh_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n`,
  ],
  ['buckets without the last', `${histogram}h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n`],
  ['a histogram without a sum', `${histogram}h_bucket{le="+Inf"} 1\nh_count 1\n`],
  ['a count that is not the last bucket', `${histogram}h_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n`],
])('the parser refuses %s', (_, text) => {
  expect(() => read(text)).toThrow()
})
