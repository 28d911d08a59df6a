import { writeFileSync } from 'node:fs'
import type { Reporter, SerializedError, TestModule } from 'vitest/node'
import { z } from 'zod'

const skippedTest = z.object({ name: z.string(), reason: z.string() })

export const testResults = z.object({ passed: z.number(), failed: z.number(), skipped: z.array(skippedTest) })
/** What one run of Vitest comes to. */
export type TestResults = z.infer<typeof testResults>

/** Names the file into which the reporter below writes; nothing is written without it. */
export const resultsVariable = 'METALBAR_TEST_RESULTS'

/** Tells `tasks/test.ts` what Vitest counted, and why tests were skipped, which Vitest's JSON does not say. */
export default class ResultsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const file = process.env[resultsVariable]
    if (file === undefined) return
    writeFileSync(file, JSON.stringify(count(modules, unhandledErrors)))
  }
}

/** A file that cannot be loaded, a failing hook and an error outside of any test each count as one failure. */
function count(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): TestResults {
  const results: TestResults = { passed: 0, failed: unhandledErrors.length, skipped: [] }
  for (const module of modules) {
    const suites = [...module.children.allSuites()]
    results.failed += module.errors().length + suites.reduce((sum, suite) => sum + suite.errors().length, 0)
    for (const test of module.children.allTests()) {
      const result = test.result()
      if (result.state === 'passed') results.passed += 1
      else if (result.state === 'failed') results.failed += 1
      else {
        const reason = result.state === 'skipped' ? result.note : 'it never ran'
        results.skipped.push({ name: `${module.project.name}: ${test.fullName}`, reason: reason ?? 'no reason given' })
      }
    }
  }
  return results
}
