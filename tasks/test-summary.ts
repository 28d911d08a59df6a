import type { FailedTest, TestResults } from './test-results.ts'

/** One part of `make test`. */
export interface Suite {
  readonly name: string
  readonly minutes: number
  readonly results: TestResults
}

/**
 * The summary at the end of `make test`; the names of failed tests come last, where a cut log still shows them. A failure whose file passed
 * in the second run `again` is named as a race, and does not fail the whole. The very last line is for programs too: it keeps its form.
 */
export function summaryOf(suites: readonly Suite[], again?: Suite): { text: string; passed: boolean } {
  const first = suites.filter((suite) => suite !== again)
  const failedFirst = first.flatMap(({ results }) => results.failed)
  const failed = again === undefined ? failedFirst : again.results.failed
  const races = again === undefined ? [] : failedFirst.filter(({ file }) => !failed.some((one) => one.file === file))
  const skipped = first.flatMap(({ results }) => results.skipped)
  const passed = first.reduce((sum, { results }) => sum + results.passed, 0) + races.length
  const lines = ['', `Minutes: ${suites.map(({ name, minutes }) => `${name} ${minutes.toFixed(1)}`).join(', ')}`]
  if (skipped.length > 0) lines.push('Skipped:', ...skipped.map(({ name, reason }) => `  ${name} (${reason})`))
  if (races.length > 0) lines.push('Passed only in a second run, alone (a race to be found):', ...races.map(told))
  if (failed.length > 0) lines.push('Failed:', ...failed.map(told))
  lines.push(`${passed} passed, ${failed.length} failed, ${skipped.length} skipped`)
  return { text: lines.join('\n'), passed: failed.length === 0 }
}

function told({ project, file, name, error }: FailedTest): string {
  return `  ${project}: ${file === undefined ? '' : `${file}: `}${name}: ${error}`
}
