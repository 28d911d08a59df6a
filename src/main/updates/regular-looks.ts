/** After a start there is other work first. */
const firstMs = 60_000
const intervalMs = 86_400_000

/** Looks once a day while that is wanted, and at once when a person begins to want it. Answers what is to be called when it may have changed. */
export function lookRegularly(isWanted: () => boolean, look: () => void): () => void {
  let timer: NodeJS.Timeout | undefined
  let hasBegun = false
  const next = (waitMs: number) => {
    timer = setTimeout(() => {
      look()
      next(intervalMs)
    }, waitMs)
  }
  return () => {
    const isOn = timer !== undefined
    if (isWanted() && !isOn) {
      if (hasBegun) look()
      next(hasBegun ? intervalMs : firstMs)
    }
    if (!isWanted() && isOn) {
      clearTimeout(timer)
      timer = undefined
    }
    hasBegun = true
  }
}
