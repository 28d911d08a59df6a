/** Resolves when the work is done or the time is up, whichever comes first; the work itself continues. */
export async function within(limitMs: number, work: Promise<unknown> | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(resolve, limitMs, undefined)
  try {
    await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
