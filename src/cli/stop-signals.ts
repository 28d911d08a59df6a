import { constants } from 'node:os'

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** As shells say that a signal ended something: with its number added. */
const signalCode = 128

/** Work that starts processes in groups of their own, which a Ctrl-C does not reach: it is told to stop, and ends them. */
export async function untilStopped<T>(work: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController()
  const stopBy = (signal: (typeof signals)[number]) => stop.abort(signal)
  for (const signal of signals) process.on(signal, stopBy)
  try {
    return await work(stop.signal)
  } finally {
    for (const signal of signals) process.removeListener(signal, stopBy)
  }
}

/** The exit code of work that a signal stopped; undefined where none did. */
export function stoppedCode(stop: AbortSignal): number | undefined {
  const stoppedBy = signals.find((signal) => signal === stop.reason)
  return stoppedBy && signalCode + constants.signals[stoppedBy]
}
