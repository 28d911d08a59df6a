import type { FailedTest, TestResults } from './test-results.ts'

/** One part of `make test`. */
export interface Suite {
  readonly name: string
  readonly minutes: number
  readonly results: TestResults
}

/**
 * The summary at the end of `make test`; the names of failed tests come last, where a cut log still shows them. The very last line is for
 * programs too: it keeps its form.
 */
export function summaryOf(suites: readonly Suite[]): { text: string; passed: boolean } {
  const failed = suites.flatMap(({ results }) => results.failed)
  const skipped = suites.flatMap(({ results }) => results.skipped)
  const passed = suites.reduce((sum, { results }) => sum + results.passed, 0)
  const lines = ['', `Minutes: ${suites.map(({ name, minutes }) => `${name} ${minutes.toFixed(1)}`).join(', ')}`]
  if (skipped.length > 0) lines.push('Skipped:', ...skipped.map(({ name, reason }) => `  ${name} (${reason})`))
  if (failed.length > 0) lines.push('Failed:', ...failed.map(told))
  lines.push(`${passed} passed, ${failed.length} failed, ${skipped.length} skipped`)
  return { text: lines.join('\n'), passed: failed.length === 0 }
}

function told({ project, file, name, error }: FailedTest): string {
  return `  ${project}: ${file === undefined ? '' : `${file}: `}${name}: ${error}`
}
