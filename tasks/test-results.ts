import { writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import type { Reporter, SerializedError, TestModule, TestResult } from 'vitest/node'
import { z } from 'zod'

const skippedTest = z.object({ name: z.string(), reason: z.string() })
const failedTest = z.object({
  project: z.string(),
  /** From the root of the repository; absent for an error outside of any file. */
  file: z.string().optional(),
  name: z.string(),
  /** The first line of its error. */
  error: z.string(),
})
/** A test, a hook or a whole file that did not pass. */
export type FailedTest = z.infer<typeof failedTest>

export const testResults = z.object({
  passed: z.number(),
  failed: z.array(failedTest),
  skipped: z.array(skippedTest),
})
/** What one run of Vitest comes to. */
export type TestResults = z.infer<typeof testResults>

/** Names the file into which the reporter below writes; nothing is written without it. */
export const resultsVariable = 'METALBAR_TEST_RESULTS'

/** Set, Vitest runs the storms alone. */
export const longVariable = 'METALBAR_TEST_LONG'

const root = new URL('..', import.meta.url).pathname

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
  const results: TestResults = { passed: 0, failed: [], skipped: [] }
  for (const error of unhandledErrors) {
    results.failed.push({ project: '', name: 'an error outside of any test', error: firstLine(error) })
  }
  for (const module of modules) {
    const failed = (name: string, error: { readonly message: string } | undefined) =>
      results.failed.push({
        project: module.project.name,
        file: relative(root, module.moduleId),
        name,
        error: firstLine(error),
      })
    for (const error of module.errors()) failed('the file itself', error)
    for (const suite of module.children.allSuites()) {
      for (const error of suite.errors()) failed(suite.fullName, error)
    }
    for (const test of module.children.allTests()) {
      const result: TestResult = test.result()
      if (result.state === 'passed') results.passed += 1
      else if (result.state === 'failed') failed(test.fullName, result.errors[0])
      else {
        const reason = result.state === 'skipped' ? result.note : 'it never ran'
        results.skipped.push({ name: `${module.project.name}: ${test.fullName}`, reason: reason ?? 'no reason given' })
      }
    }
  }
  return results
}

function firstLine(error: { readonly message: string } | undefined): string {
  return error?.message.split('\n', 1)[0] ?? 'it says nothing'
}
