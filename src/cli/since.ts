import { VerbError } from './agent-session.ts'

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
/** Longer ago than anything is kept, and short of where dates end. */
const longestMs = 100 * 366 * 86_400_000

/** The beginning of a time that is told as `24h`, `7d`, `2026-11-01` (from midnight here) or an RFC 3339 time. Throws VerbError. */
export function parseSince(text: string, now: Date): Date {
  const span = /^(\d{1,9})([mhdw])$/.exec(text)
  const ms = Number(span?.[1]) * (unitMs[span?.[2] ?? ''] ?? NaN)
  if (ms <= longestMs) return new Date(now.getTime() - ms)
  const date = dateOf(text)
  if (date === undefined)
    throw new VerbError(
      `--since must be a time such as 24h, 7d, 2026-11-01 or 2026-11-01T08:00:00Z, not ${JSON.stringify(text)}.`,
    )
  if (date > now) throw new VerbError(`--since ${text} lies in the future: nothing is counted there yet.`)
  return date
}

function dateOf(text: string): Date | undefined {
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text)
  if (!isDay && !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/.test(text)) return undefined
  // 30 February would be 2 March.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  if (Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== text.slice(0, 10)) return undefined
  const date = new Date(isDay ? `${text}T00:00:00` : text)
  return Number.isNaN(date.getTime()) ? undefined : date
}
