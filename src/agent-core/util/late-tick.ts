export interface LateTickOptions {
  /** The machine, or this process, stood still for a while: so many milliseconds beyond what is usual. */
  readonly onLate: (lateMs: number) => void
  /** It was awake since the last tick. */
  readonly onTime?: () => void
  readonly everyMs?: number
  readonly lateMs?: number
  /** Clocks in milliseconds: the monotonic one runs during sleep on some systems only, the wall clock can be set by people. */
  readonly clocks?: readonly (() => number)[]
}

export const defaultEveryMs = 5_000
/** A busy machine is never so late, and no sleep is so short that it hurts. */
const defaultLateMs = 10_000

/** Notices a sleep that nobody announces by a timer that comes too late; a clock that was set forward is a false alarm. */
export function watchLateTicks(options: LateTickOptions): Disposable {
  const { onLate, onTime, everyMs = defaultEveryMs, lateMs = defaultLateMs } = options
  const { clocks = [() => Date.now(), () => performance.now()] } = options
  let before = clocks.map((clock) => clock())
  const timer = setInterval(() => {
    const now = clocks.map((clock) => clock())
    const late = Math.max(...now.map((at, index) => at - (before[index] ?? at) - everyMs))
    before = now
    if (late > lateMs) onLate(late)
    else onTime?.()
  }, everyMs)
  timer.unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}
