import { defineConfig } from 'vitest/config'
import LongestFirst from './tasks/longest-first.ts'

/**
 * Limits of one test in milliseconds, which end what hangs; they say nothing about speed, and hold on a machine that
 * does something else besides.
 */
const limits = { unit: 90_000, withParts: 120_000, wholeAgent: 180_000 }

const project = (name: string, testTimeout: number, globalSetup: string[] = []) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], testTimeout, hookTimeout: 180_000, globalSetup },
})

const realApiServer = ['test/support/control-plane/global-setup.ts']
const builtAgent = ['test/support/built-agent/global-setup.ts']

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    reporters: ['default', './tasks/test-results.ts'],
    projects: [
      project('unit', limits.unit),
      project('kube', limits.withParts, realApiServer),
      project('agent', limits.wholeAgent, [...realApiServer, ...builtAgent]),
      project('security', limits.wholeAgent, [...realApiServer, ...builtAgent]),
      project('shell', limits.withParts, [...realApiServer, 'test/support/electron-stand-in/global-setup.ts']),
      project('window', limits.withParts, ['test/support/window/global-setup.ts']),
    ],
  },
})
