/** A step this much later than it was due tells of a sleep; no busy machine is so late. */
export const sleptMs = 5_000
/** A machine that seems to sleep more often is one that stands still under its load, where no limit may be put off for ever. */
export const mostSleeps = 10
const defaultStepMs = 1_000

export interface AwakeTimeout {
  /** Time awake that is left, as of the last step. */
  readonly leftMs: number
  clear(): void
}

/**
 * Like setTimeout, but only time in which the machine was awake counts: where the clock runs during sleep, every timer would be due at the
 * moment of the wake.
 */
export function awakeTimeout(
  onDue: () => void,
  delayMs: number,
  {
    now = () => performance.now(),
    longestStepMs = defaultStepMs,
  }: { readonly now?: () => number; readonly longestStepMs?: number } = {},
): AwakeTimeout {
  let leftMs = Math.max(0, delayMs)
  let sleeps = 0
  let timer: NodeJS.Timeout
  const step = () => {
    const stepMs = Math.min(longestStepMs, leftMs)
    const begunAt = now()
    timer = setTimeout(() => {
      const tookMs = now() - begunAt
      // What it was due for in its sleep, it gets once more.
      if (tookMs - stepMs < sleptMs || ++sleeps > mostSleeps) leftMs -= Math.max(stepMs, tookMs)
      if (leftMs > 0) step()
      else onDue()
    }, stepMs)
  }
  step()
  return {
    get leftMs() {
      return leftMs
    },
    clear: () => clearTimeout(timer),
  }
}
