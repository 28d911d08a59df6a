import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { availableParallelism, constants, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parts } from './setup/parts.ts'
import { type MissingPart, setUp } from './setup/set-up.ts'
import { type FailedTest, resultsVariable, type TestResults, testResults } from './test-results.ts'
import { type Suite, summaryOf } from './test-summary.ts'

const root = join(import.meta.dirname, '..')
const strict = process.env['CI'] === 'true'

/** Agents and servers of a test mostly wait, so three files more than cores keep the cores busy. */
const filesAtOnce = availableParallelism() + 3

/** Where more files failed than these it is no race, and a second run would only hide how much is broken. */
const mostFilesRunAgain = 8

process.exitCode = (await everything()) ? 0 : 1

/** The checks take the time that the tests wait. @returns whether all of it went well. */
async function everything(): Promise<boolean> {
  const checks = allChecks()
  const suites = [await timed('parts', () => setUpParts())]
  suites.push(await vitest(), ...(await checks))
  const failed = suites.flatMap(({ results }) => results.failed)
  const again = canRunAgain(failed) ? await runAgain(failed) : undefined
  if (again !== undefined) suites.push(again)
  const summary = summaryOf(suites, again)
  console.log(summary.text)
  return summary.passed
}

async function allChecks(): Promise<Suite[]> {
  return [await check('format'), await check('lint')]
}

async function setUpParts(): Promise<TestResults> {
  const missing = await setUp(parts, (line) => console.log(line))
  const fatal = missing.filter(({ part }) => strict && part.required)
  return {
    passed: 0,
    failed: fatal.map(({ part, reason }) => ({
      project: 'parts',
      name: `${part.name}, required with CI=true`,
      error: reason,
    })),
    skipped: missing.filter((one) => !fatal.includes(one)).map(asSkipped),
  }
}

function asSkipped({ part, reason }: MissingPart): TestResults['skipped'][number] {
  return { name: `what needs ${part.name}`, reason }
}

/** An npm script that only passes or fails; a failure counts as one failed test. Gives way to the tests beside it. */
function check(script: string): Promise<Suite> {
  return timed(script, async () => {
    const passed = await runs('npm', ['run', '--silent', script], {
      priority: constants.priority.PRIORITY_BELOW_NORMAL,
    })
    const failed = { project: script, name: `npm run ${script}`, error: 'its output is above' }
    return { passed: 0, failed: passed ? [] : [failed], skipped: [] }
  })
}

/** All projects in one run, so that no core waits for the last file of one before the next begins. */
function vitest(): Promise<Suite> {
  return timed('tests', () => runVitest([`--maxWorkers=${filesAtOnce}`], 'tests'))
}

/** A test that broke off in the middle of a run, or a single file that did not load, names no file to run again. */
function canRunAgain(failed: readonly FailedTest[]): boolean {
  const files = new Set(failed.map(({ file }) => file))
  return failed.length > 0 && !files.has(undefined) && files.size <= mostFilesRunAgain
}

/**
 * The files with failures once more, one after the other with the machine to themselves: tells a race from a defect. Each is a run of Vitest of
 * its own, which given files of several projects one after the other runs those of one and passes.
 */
function runAgain(failed: readonly FailedTest[]): Promise<Suite> {
  const files = new Map(failed.map(({ project, file = '' }) => [`${project} ${file}`, { project, file }]))
  console.log(`\nOnce more, alone: ${[...files.values()].map(({ file }) => file).join(', ')}`)
  return timed('again', async () => {
    const all: TestResults = { passed: 0, failed: [], skipped: [] }
    for (const { project, file } of files.values()) {
      const { passed, failed, skipped } = await runVitest(['--project', project, file], 'again')
      all.passed += passed
      all.failed.push(...failed)
      all.skipped.push(...skipped)
      if (passed + failed.length + skipped.length > 0) continue
      all.failed.push({ project, file, name: 'the second run', error: 'it ran no test of this file' })
    }
    return all
  })
}

async function runVitest(options: readonly string[], name: string): Promise<TestResults> {
  const folder = await mkdtemp(join(tmpdir(), 'metalbar-test-'))
  const file = join(folder, 'results.json')
  try {
    const command = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--passWithNoTests', ...options]
    const passed = await runs(process.execPath, command, { env: { [resultsVariable]: file } })
    const results = await readResults(file)
    if (passed || results.failed.length > 0) return results
    const broken = { project: name, name: 'the run of Vitest', error: 'it broke off; its output is above' }
    return { ...results, failed: [broken] }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Nothing was counted when Vitest found no test, or broke before it could count; its exit code tells which. */
async function readResults(file: string): Promise<TestResults> {
  const text = await readFile(file, 'utf8').catch(() => '{"passed":0,"failed":[],"skipped":[]}')
  return testResults.parse(JSON.parse(text))
}

interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  /** One of `os.constants.priority`. */
  readonly priority?: number
}

async function runs(command: string, args: readonly string[], { env, priority }: RunOptions = {}): Promise<boolean> {
  const child = spawn(command, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } })
  if (priority !== undefined && child.pid !== undefined) setPriority(child.pid, priority)
  await once(child, 'close')
  return child.exitCode === 0
}

async function timed(name: string, run: () => Promise<TestResults>): Promise<Suite> {
  const start = performance.now()
  const results = await run()
  return { name, minutes: (performance.now() - start) / 60_000, results }
}
