import type { Environment } from 'vitest/runtime'
import { closeWorkerBrowser } from './worker-browser.ts'

/** Node, and the end of the worker's browser after its last file. */
export default {
  name: 'window',
  viteEnvironment: 'ssr',
  setup: () => ({ teardown: closeWorkerBrowser }),
} satisfies Environment
