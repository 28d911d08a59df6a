/** `8,192` */
export const formatCount = (count: number): string => formatNumber(Math.round(count))

/**
 * A number to the thousandth with its thousands apart, in English as the sentences around it: `1,000`, `0.32`. Without
 * `Intl.NumberFormat`, whose first use keeps 8 MiB of an agent's memory.
 */
export function formatNumber(value: number): string {
  const [whole = '', fraction] = String(Number(value.toFixed(3))).split('.')
  let grouped = whole
  for (let at = whole.length - 3; at > (value < 0 ? 1 : 0); at -= 3)
    grouped = `${grouped.slice(0, at)},${grouped.slice(at)}`
  return fraction === undefined ? grouped : `${grouped}.${fraction}`
}

/** `52.3`, and from 100 on without a fraction: `1,024`. */
export const formatDecimal = (value: number): string => (value < 99.95 ? value.toFixed(1) : formatCount(value))

/** Decimal units, as on a Mac: `996 B`, `4.1 GB`, `412 GB`. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  const step = units.findIndex((_, power) => Math.round(bytes / 1_000 ** power) < 1_000)
  const power = step === -1 ? units.length - 1 : step
  return `${power === 0 ? Math.round(bytes) : formatDecimal(bytes / 1_000 ** power)} ${units[power] ?? ''}`
}

/** `61.0 MB/s` */
export const formatByteRate = (bytesPerSecond: number): string => `${formatBytes(bytesPerSecond)}/s`

/** As memory is counted where it is sold: `89.4 GiB`. */
export const formatGib = (bytes: number): string => `${Number((bytes / 2 ** 30).toFixed(1))} GiB`

/** Where a budget is explained: `96.0 GB (89.4 GiB)`. */
export const formatMemory = (bytes: number): string => `${formatBytes(bytes)} (${formatGib(bytes)})`

/** A share from 0 to 1 as `37 %`, with at most `digits` decimals. */
export const formatShare = (share: number, digits = 0): string => `${Number((100 * share).toFixed(digits))} %`

/** `8,192 tokens` */
export const formatTokens = (count: number): string => `${formatCount(count)} ${count === 1 ? 'token' : 'tokens'}`

/** `52.3 tok/s` */
export const formatTokenRate = (tokensPerSecond: number): string => `${formatDecimal(tokensPerSecond)} tok/s`

/** Where there is little room: `52 tok/s`. */
export const formatRoundTokenRate = (tokensPerSecond: number): string => `${formatCount(tokensPerSecond)} tok/s`

/** A number of weights as model names write it: `3.8B`, `70B`, `360M`. */
export function formatWeights(count: number): string {
  const [amount, unit] = count >= 1e9 ? [count / 1e9, 'B'] : [count / 1e6, 'M']
  return `${Number(amount.toFixed(amount < 100 && unit === 'B' ? 1 : 0))}${unit}`
}

/** `12.3 W` */
export const formatWatts = (watts: number | undefined): string =>
  watts === undefined ? 'not reported' : `${watts.toFixed(1)} W`

/** Where there is little room, or no more is known: `12 W`, `0.42 W`. */
export const formatRoundWatts = (watts: number): string =>
  `${watts < 9.95 ? Number(watts.toPrecision(2)) : formatCount(watts)} W`

/** `5 s`, `12 min`, `3 h 20 min`, `2 days`; never less than nothing. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`
  return `${Math.floor(hours / 24)} days`
}

/** By the calendar and clock of whoever reads it, in the order of the day in Europe and with 24 hours, which is never read wrongly. */
const dates = 'en-GB'

/** `14:05` */
export const formatTime = (at: Date): string =>
  at.toLocaleTimeString(dates, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

/** `14:05:09` */
export const formatExactTime = (at: Date): string =>
  at.toLocaleTimeString(dates, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' })

/** `Friday 2 January` */
export const formatDay = (at: Date): string =>
  at.toLocaleDateString(dates, { weekday: 'long', day: 'numeric', month: 'long' }).replace(',', '')

/** `2 Jan` */
export const formatShortDay = (at: Date): string => at.toLocaleDateString(dates, { day: 'numeric', month: 'short' })

/** `Fri` */
export const formatWeekday = (at: Date): string => at.toLocaleDateString(dates, { weekday: 'short' })

/** `14:05`, and where that is another day than `now`: `2 January, 14:05`. */
export function formatMoment(at: Date, now: Date): string {
  const time = formatTime(at)
  if (at.toDateString() === now.toDateString()) return time
  return `${at.toLocaleDateString(dates, { day: 'numeric', month: 'long' })}, ${time}`
}

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

/** In the largest unit that leaves a whole number; what {@link parseByteCount} reads back. */
export function formatByteCount(bytes: number): string {
  const unit =
    ['Ti', 'T', 'Gi', 'G', 'Mi', 'M', 'Ki', 'k'].find((one) => bytes > 0 && bytes % (unitBytes[one] ?? 1) === 0) ?? ''
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
