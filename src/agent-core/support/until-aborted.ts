/** Waits for `settled`, or throws the signal's reason. */
export async function untilAborted(settled: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    await Promise.race([settled, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
