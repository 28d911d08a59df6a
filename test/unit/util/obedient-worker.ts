import { parentPort, workerData } from 'node:worker_threads'

/** Does what its input says. */
const orders: Record<string, () => void> = {
  describe: () => parentPort?.postMessage({ environment: { ...process.env }, options: process.execArgv }),
  throw: () => {
    throw new Error('this worker was told to throw')
  },
  end: () => process.exit(3),
  hoard: () => {
    for (const hoard: object[] = []; ;) hoard.push({ hoard: hoard.length })
  },
  spin: () => {
    for (;;);
  },
  echo: () =>
    parentPort?.on('message', (message: string) => {
      if (message === 'throw' || message === 'spin') orders[message]?.()
      parentPort?.postMessage(message)
    }),
}
orders[(workerData as { do: string }).do]?.()
