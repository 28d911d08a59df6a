import type { Browser } from 'playwright'
import { startBrowser } from './browser.ts'

/** One for all files that a worker runs. Vitest loads the worker's environment apart from its tests, hence the global. */
const worker: { browser?: Browser } = ((globalThis as WorkerGlobal)[Symbol.for('metalbar.browser')] ??= {})

interface WorkerGlobal {
  [key: symbol]: { browser?: Browser } | undefined
}

/** Another one where the last has crashed. */
export async function workerBrowser(executablePath: string): Promise<Browser> {
  if (worker.browser?.isConnected() !== true) worker.browser = await startBrowser(executablePath)
  return worker.browser
}

export async function closeWorkerBrowser(): Promise<void> {
  await worker.browser?.close()
}
