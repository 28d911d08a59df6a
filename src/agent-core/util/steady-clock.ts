/** What a wall clock that is corrected a little all the time may differ by before it counts as set. */
const toleranceMs = 1_000

let setByMs = 0

/**
 * Milliseconds since 1970 as of the start of this process, continuing from there however the wall clock is set meanwhile: for deadlines and
 * for spans of time. What people see goes through {@link wallTimeOf}.
 */
export const steadyNow = (): number => Math.floor(performance.timeOrigin + performance.now())

/** A time of the steady clock as the wall clock has it now. */
export function wallTimeOf(at: number): Date {
  const difference = Date.now() - steadyNow()
  if (Math.abs(difference - setByMs) > toleranceMs) setByMs = difference
  return new Date(Math.round(at + setByMs))
}
