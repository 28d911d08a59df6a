/** Long enough to be readable, short enough to show that a download slowed down. */
const timeConstantMs = 3_000

/** The moving average after `bytes` more in `elapsedMs`: older samples fade with a time constant of 3 s. */
export function nextRate(previous: number | undefined, bytes: number, elapsedMs: number): number {
  if (elapsedMs <= 0) return previous ?? 0
  const current = (bytes * 1000) / elapsedMs
  if (previous === undefined) return current
  return previous + (1 - Math.exp(-elapsedMs / timeConstantMs)) * (current - previous)
}
