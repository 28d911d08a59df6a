export interface MetricRow {
  readonly type: 'gauge' | 'counter' | 'histogram'
  readonly help: string
  /** What the name ends with, before the `_total` of a counter. */
  readonly unit?: 'bytes' | 'seconds' | 'watts' | 'joules' | 'ratio'
  /** `go`: the Go agent's own, whose name, type and labels dashboards have and which therefore never change. */
  readonly origin: 'go' | 'ours'
  /** It has the labels `name` and `namespace`, and its series go with the service. */
  readonly perService?: true
  /** Every value that a label may have, so that there is an end to the number of series. */
  readonly labels?: Readonly<Record<string, readonly string[]>>
  /** Of a histogram, in its unit; absent = the Go agent's, 5 ms to 10 s. */
  readonly buckets?: readonly number[]
  /** A counter that not every machine or service has: it begins with its first figure rather than at 0. */
  readonly startsAbsent?: true
}

/** Every combination of the values that the labels of a metric may have; one without labels has one, the empty. */
export function labelCombinations({ labels = {} }: MetricRow): Readonly<Record<string, string>>[] {
  return Object.entries(labels).reduce<Readonly<Record<string, string>>[]>(
    (combinations, [label, values]) =>
      combinations.flatMap((combination) => values.map((value) => ({ ...combination, [label]: value }))),
    [{}],
  )
}

/** In the order in which they are shown. */
export const labelNames = ({ perService, labels = {} }: MetricRow): string[] => [
  ...(perService ? ['name', 'namespace'] : []),
  ...Object.keys(labels),
]
