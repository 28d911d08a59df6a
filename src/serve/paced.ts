export interface Paced {
  /** Has the work done soon, once, however often it is said before that. */
  due(): void
  stop(): void
}

/** Does `work` at most once in `intervalMs`, never within the call that asks for it, and always once after the last of them. */
export function paced(intervalMs: number, work: () => void): Paced {
  let timer: NodeJS.Timeout | undefined
  let lastAt = -Infinity
  let stopped = false
  return {
    due() {
      if (stopped) return
      timer ??= setTimeout(
        () => {
          timer = undefined
          lastAt = performance.now()
          work()
        },
        Math.max(0, Math.ceil(lastAt + intervalMs - performance.now())),
      )
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}
