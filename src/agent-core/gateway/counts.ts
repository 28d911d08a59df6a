import type { GatewayCounts, HistogramCounts, ServiceCounts } from '../../contract/gateway.ts'
import { refKey } from '../util/object-key.ts'

/** The counts of several gateways together. There is at least one. */
export const sumOf = (all: readonly GatewayCounts[]): GatewayCounts => all.reduce(sumOfTwo)

function sumOfTwo(one: GatewayCounts, other: GatewayCounts): GatewayCounts {
  const services = Map.groupBy([...one.services, ...other.services], refKey).values()
  return {
    requests: sumsBy(one.requests, other.requests),
    services: [...services].map((same) => same.reduce(sumOfServices)),
    ...((one.ingress ?? other.ingress) && { ingress: sumsBy(one.ingress ?? {}, other.ingress ?? {}) }),
  }
}

function sumOfServices(one: ServiceCounts, other: ServiceCounts): ServiceCounts {
  const requests = Map.groupBy([...one.requests, ...other.requests], ({ code, reason }) => `${code} ${reason}`).values()
  return {
    namespace: one.namespace,
    name: one.name,
    waiting: one.waiting + other.waiting,
    streaming: one.streaming + other.streaming,
    requests: [...requests].map((same) => same.reduce((a, b) => ({ ...a, count: a.count + b.count }))),
    firstByte: sumOfHistograms(one.firstByte, other.firstByte),
    inTotal: sumOfHistograms(one.inTotal, other.inTotal),
  }
}

const sumOfHistograms = (one: HistogramCounts, other: HistogramCounts): HistogramCounts => ({
  counts: one.counts.map((count, index) => count + (other.counts[index] ?? 0)),
  sum: one.sum + other.sum,
})

function sumsBy<K extends string>(
  one: Partial<Record<K, number>>,
  other: Partial<Record<K, number>>,
): Partial<Record<K, number>> {
  const sums = { ...one }
  for (const key of Object.keys(other) as K[]) sums[key] = (sums[key] ?? 0) + (other[key] ?? 0)
  return sums
}
