import { defineConfig } from 'vitest/config'
import LongestFirst from './tasks/longest-first.ts'
import { longVariable } from './tasks/test-results.ts'

/**
 * Limits of one test in milliseconds, which end what hangs; they say nothing about speed, and hold on a machine that
 * does something else besides.
 */
const limits = { unit: 90_000, withParts: 120_000, wholeAgent: 180_000 }

const ownOfElectron = 'test/shell/real-electron.test.ts'

const ofEveryRun = ['test/support/run-warden/global-setup.ts', 'test/support/compile-cache/global-setup.ts']

/** Storms of many rounds of the whole: `make test-long`. */
const long = process.env[longVariable] !== undefined

const project = (name: string, testTimeout: number, setups: string[] = [], excluded: string[] = []) => {
  const globalSetup = [...ofEveryRun, ...setups]
  const include = [`test/${name}/**/*.${long ? 'long.' : ''}test.ts`]
  const exclude = long ? excluded : [...excluded, '**/*.long.test.ts']
  // Tests change nothing for good, so that one process runs file after file and loads each module, which takes it a second, once.
  return { test: { name, include, testTimeout, hookTimeout: 180_000, globalSetup, exclude, isolate: false } }
}

const realApiServer = ['test/support/control-plane/global-setup.ts']
const builtAgent = ['test/support/built-agent/global-setup.ts']

/**
 * Of the others: `popover`, `quit`, `waits` and `questions` run parts of the app inside of the test; `updates`, `first-start` and `first-run`
 * need an app that is installed and signed, and a macOS that puts another one in its place; `supply` sees
 * blockers, which Electron tells nobody; `package` and `carriers` are about the package and the agent's carriers themselves.
 */
const suitesOnElectron = ['real-electron', 'menu-bar', 'window', 'settings', 'macos', 'page', 'ends', 'sleep']

/** Some tests of the app run parts of it in their process, on a stand-in in place of the module of Electron. */
const isolate = true

/** Tests of the project `shell` once more: on Electron itself, where there is one. */
const onElectron = {
  test: {
    ...project('electron', limits.wholeAgent, ['test/support/real-electron/global-setup.ts']).test,
    include: suitesOnElectron.map((name) => `test/shell/${name}.test.ts`),
    setupFiles: ['test/support/real-electron/skip-without-electron.ts'],
    env: { METALBAR_TEST_SHELL: 'electron' },
    isolate,
  },
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    reporters: ['default', './tasks/test-results.ts'],
    projects: [
      project('unit', limits.unit),
      project('kube', limits.withParts, realApiServer),
      project('agent', limits.wholeAgent, [...realApiServer, ...builtAgent]),
      project('security', limits.wholeAgent, [...realApiServer, ...builtAgent]),
      {
        test: {
          ...project(
            'shell',
            limits.withParts,
            [...realApiServer, 'test/support/built-app/global-setup.ts'],
            [ownOfElectron],
          ).test,
          isolate,
        },
      },
      ...(long ? [] : [onElectron]),
      // Its environment ends the browser of a process, which all of its files share.
      {
        test: {
          ...project('window', limits.withParts, ['test/support/window/global-setup.ts']).test,
          environment: './test/support/window/environment.ts',
        },
      },
    ],
  },
})
