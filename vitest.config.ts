import { defineConfig } from 'vitest/config'

const project = (name: string, testTimeout: number, globalSetup: string[] = []) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], testTimeout, hookTimeout: 120_000, globalSetup },
})

const realApiServer = ['test/support/control-plane/global-setup.ts']

export default defineConfig({
  test: {
    reporters: ['default', './tasks/test-results.ts'],
    projects: [
      project('unit', 20_000),
      project('kube', 60_000, realApiServer),
      project('agent', 90_000, realApiServer),
      project('security', 120_000, realApiServer),
      project('shell', 60_000, ['test/support/electron-stand-in/global-setup.ts']),
      project('window', 60_000, ['test/support/window/global-setup.ts']),
    ],
  },
})
