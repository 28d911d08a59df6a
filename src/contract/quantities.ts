/** Milliseconds, or undefined where Go's `time.ParseDuration` would not take the text. */
export function parseDuration(text: string): number | undefined {
  const match = /^([-+]?)((?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/.exec(text)
  if (match?.[2] === undefined) return /^[-+]?0$/.test(text) ? 0 : undefined
  let total = 0
  for (const [, amount = '', unit = ''] of match[2].matchAll(/(?<![\d.])([\d.]+)(ns|us|µs|μs|ms|s|m|h)/g)) {
    total += Number(amount) * (unitMs[unit] ?? Number.NaN)
  }
  if (!Number.isFinite(total)) return undefined
  // To the nanosecond, the smallest unit: 16.08 s would be 16079.999999999998 ms.
  const ms = Math.round(total * 1e6) / 1e6
  return match[1] === '-' ? -ms : ms
}

/** The way Go prints it, such as `1m30s`; what {@link parseDuration} reads back. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s'
  if (Math.abs(ms) < 1_000) return `${ms}ms`
  const sign = ms < 0 ? '-' : ''
  const seconds = Math.abs(ms) / 1_000
  const hours = Math.floor(seconds / 3_600)
  const minutes = Math.floor((seconds % 3_600) / 60)
  const rest = Number((seconds % 60).toFixed(3))
  return sign + (hours > 0 ? `${hours}h` : '') + (minutes > 0 ? `${minutes}m` : '') + (rest > 0 ? `${rest}s` : '')
}

/** As Kubernetes writes quantities, such as `20Mi` or `5M`; undefined where the text is none, or no whole number of bytes. */
export function parseByteCount(text: string): number | undefined {
  const [, amount = '', unit = ''] = /^(\d+(?:\.\d+)?)(|k|Ki|M|Mi|G|Gi|T|Ti)$/.exec(text) ?? []
  const bytes = Number(amount || Number.NaN) * (unitBytes[unit] ?? Number.NaN)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** In the largest binary unit that leaves a whole number; what {@link parseByteCount} reads back. */
export function formatByteCount(bytes: number): string {
  const unit = ['Ti', 'Gi', 'Mi', 'Ki'].find((one) => bytes > 0 && bytes % (unitBytes[one] ?? 1) === 0) ?? ''
  return `${bytes / (unitBytes[unit] ?? 1)}${unit}`
}

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
}

const unitBytes: Readonly<Record<string, number>> = {
  '': 1,
  k: 1e3,
  Ki: 1_024,
  M: 1e6,
  Mi: 1_024 ** 2,
  G: 1e9,
  Gi: 1_024 ** 3,
  T: 1e12,
  Ti: 1_024 ** 4,
}
