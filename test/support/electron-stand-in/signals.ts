const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const

/**
 * As Electron does shortly before it is ready: it puts its own handlers in the place of those that the program has by then. Each quits
 * once, and gives the signal back to the system, which ends the process at the second. Handlers that come later take their place.
 */
export function handleSignals(quit: () => void): void {
  for (const signal of signals) {
    process.removeAllListeners(signal)
    const once = () => {
      process.off(signal, once)
      // Where the program listens too, its handler is the one that the system calls.
      if (process.listenerCount(signal) === 0) quit()
    }
    process.on(signal, once)
  }
}
