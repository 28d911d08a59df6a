import type { ServiceView, StepName } from '../contract/service.ts'
import { formatBytes, formatSpan } from '../contract/format.ts'
import type { Progress } from '../contract/service.ts'

export const stepWords: Readonly<Record<StepName, string>> = {
  fetched: 'Fetched',
  started: 'Started',
  healthy: 'Healthy',
  published: 'Published',
  clusterAgrees: 'Cluster agrees',
}

export interface ProgressWords {
  /** In percent; absent where the source does not say how long the file is. */
  readonly percent?: number
  /** `7.9 GB of 18.6 GB · 61.0 MB/s · 3 min left` */
  readonly text: string
}

export function progressWords({ doneBytes, totalBytes, bytesPerSecond }: Progress): ProgressWords {
  const rate = bytesPerSecond > 0 ? `${formatBytes(bytesPerSecond)}/s` : 'no data is coming in'
  if (totalBytes === undefined || totalBytes === 0) {
    return { text: [formatBytes(doneBytes), rate, 'size not reported'].join(' · ') }
  }
  const missing = totalBytes - doneBytes
  const left = bytesPerSecond > 0 && missing > 0 ? [`${formatSpan((1_000 * missing) / bytesPerSecond)} left`] : []
  return {
    percent: Math.min(100, Math.floor((100 * doneBytes) / totalBytes)),
    text: [`${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}`, rate, ...left].join(' · '),
  }
}

export const requestsWords = (count: number) =>
  count === 1 ? 'Waiting for 1 request to finish.' : `Waiting for ${count} requests to finish.`

export const timesWords = (count: number) => (count === 1 ? 'once' : `${count} times in a row`)

/** How the server ended, as far as that is known. */
export function endWords({ exitCode, signal }: NonNullable<ServiceView['crash']>): string {
  if (signal !== undefined) return `Ended by ${signal}`
  return exitCode === undefined ? 'Ended' : `Exit code ${exitCode}`
}
