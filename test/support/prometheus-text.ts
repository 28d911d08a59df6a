/** A sample of a family: `name` is the family's, or with `_bucket`, `_sum` or `_count` of a histogram. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface MetricFamily {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly samples: readonly Sample[]
}

type Growing = { -readonly [K in keyof MetricFamily]: MetricFamily[K] } & { readonly samples: Sample[] }

/**
 * Reads Prometheus' text format 0.0.4, and is stricter than Prometheus: every family has one HELP and one TYPE before its samples, which
 * stand together, no series comes twice, and the buckets of a histogram add up. Throws with the number of the line.
 */
export function parsePrometheusText(text: string): Map<string, MetricFamily> {
  const families = new Map<string, Growing>()
  if (text !== '' && !text.endsWith('\n')) throw new Error('The last line does not end.')
  let current: Growing | undefined
  const seen = new Set<string>()
  for (const [index, line] of text.split('\n').entries()) {
    const refuse = (why: string): never => {
      throw new Error(`Line ${index + 1}: ${why}: ${line}`)
    }
    if (line === '') continue
    if (line.startsWith('#')) {
      const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? refuse('no HELP and no TYPE')
      if (!metricName.test(name)) refuse('not the name of a metric')
      if (keyword === 'HELP') {
        if (families.has(name)) refuse('a second HELP, or one after its samples')
        current = { name, type: '', help: unescape(rest, refuse), samples: [] }
        families.set(name, current)
      } else if (current?.name !== name || current.type !== '') refuse('no TYPE right after its HELP')
      else if (!types.has(rest)) refuse('no type of metric')
      else current.type = rest
    } else {
      const sample = parseSample(line, refuse)
      if (!current || current.type === '') refuse('a sample before HELP and TYPE')
      else if (!belongs(sample, current)) refuse('a sample of another family')
      else if (seen.has(seriesName(sample))) refuse('the same series again')
      else if (current.type === 'counter' && !(sample.value >= 0)) refuse('a counter below 0')
      else {
        seen.add(seriesName(sample))
        current.samples.push(sample)
      }
    }
  }
  for (const family of families.values()) if (family.type === 'histogram') checkHistogram(family)
  return families
}

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const types = new Set(['counter', 'gauge', 'histogram', 'summary', 'untyped'])

function parseSample(line: string, refuse: (why: string) => never): Sample {
  const [, name = '', braces, value = ''] =
    /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)(?: -?\d+)?$/.exec(line) ??
    refuse('not a sample')
  const labels: Record<string, string> = {}
  let rest = braces ?? ''
  while (rest !== '') {
    const [all, label = '', text = ''] =
      /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)/.exec(rest) ?? refuse('not a label')
    if (label in labels) refuse('the same label again')
    labels[label] = unescape(text, refuse)
    rest = rest.slice(all.length)
  }
  return { name, labels, value: parseValue(value, refuse) }
}

function unescape(text: string, refuse: (why: string) => never): string {
  return text.replace(/\\(.)?/g, (_, character: string | undefined) => {
    if (character === 'n') return '\n'
    return character === '\\' || character === '"' ? character : refuse('an unknown escape')
  })
}

function parseValue(text: string, refuse: (why: string) => never): number {
  const named = { '+Inf': Infinity, '-Inf': -Infinity, NaN }[text]
  if (named !== undefined) return named
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : refuse('not a number')
}

function belongs({ name, labels }: Sample, family: MetricFamily): boolean {
  if (family.type !== 'histogram') return name === family.name
  return (
    (name === `${family.name}_bucket` && 'le' in labels) ||
    name === `${family.name}_sum` ||
    name === `${family.name}_count`
  )
}

/** Its name and labels, whatever their order. */
export function seriesName({ name, labels }: Sample): string {
  const texts = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`)
  return texts.length === 0 ? name : `${name}{${texts.sort().join(',')}}`
}

function checkHistogram({ name, samples }: MetricFamily): void {
  const histograms = Map.groupBy(samples, ({ labels }) => {
    const others = Object.entries(labels).filter(([label]) => label !== 'le')
    return seriesName({ name, labels: Object.fromEntries(others), value: 0 })
  })
  for (const [which, own] of histograms) {
    const buckets = own.filter(({ labels }) => 'le' in labels)
    const bounds = buckets.map(({ labels }) => parseValue(labels['le'] ?? '', (why) => fail(which, why)))
    const sorted = bounds.every((bound, index) => index === 0 || bound > (bounds[index - 1] ?? bound))
    const cumulative = buckets.every(({ value }, index) => index === 0 || value >= (buckets[index - 1]?.value ?? value))
    const count = own.find((sample) => sample.name === `${name}_count`)?.value
    const isWhole = bounds.at(-1) === Infinity && buckets.at(-1)?.value === count
    if (!sorted || !cumulative || !isWhole) fail(which, 'its buckets do not add up')
    if (!own.some((sample) => sample.name === `${name}_sum`)) fail(which, 'it has no sum')
  }
}

function fail(which: string, why: string): never {
  throw new Error(`${which}: ${why}.`)
}
