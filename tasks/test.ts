import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { availableParallelism, constants, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { longParts, parts } from './setup/parts.ts'
import { type MissingPart, setUp } from './setup/set-up.ts'
import { longVariable, resultsVariable, type TestResults, testResults } from './test-results.ts'
import { type Suite, summaryOf } from './test-summary.ts'

const root = join(import.meta.dirname, '..')
const strict = process.env['CI'] === 'true'
/** `make test-long`: the storms, in files `*.long.test.ts`, and nothing else. */
const long = process.argv[2] === 'long'

/** Agents and servers of a test mostly wait, so three files more than cores keep the cores busy. */
const filesAtOnce = availableParallelism() + 3

process.exitCode = (await everything()) ? 0 : 1

/** The checks take the time that the tests wait. @returns whether all of it went well. */
async function everything(): Promise<boolean> {
  const checked = long ? [] : [timed('checks', () => checks())]
  const suites = [await timed('parts', () => setUpParts()), await timed('tests', () => vitest())]
  const summary = summaryOf([...suites, ...(await Promise.all(checked))])
  console.log(summary.text)
  return summary.passed
}

async function setUpParts(): Promise<TestResults> {
  const missing = await setUp(long ? longParts : parts, (line) => console.log(line))
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

/** What `npm run checks` finds, as one test, which gives way to the tests beside it; its output is printed when it fails. */
async function checks(): Promise<TestResults> {
  const child = spawn('npm', ['run', '--silent', 'checks'], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL)
  const output = Promise.all([text(child.stdout), text(child.stderr)])
  await once(child, 'close')
  if (child.exitCode === 0) return { passed: 1, failed: [], skipped: [] }
  const lines = (await output).join('').trim()
  console.log(`\n${lines}`)
  const error = lines.split('\n').at(-1) ?? ''
  return { passed: 0, failed: [{ project: 'checks', name: 'npm run checks', error }], skipped: [] }
}

/** All projects in one run, so that no core waits for the last file of one before the next begins. */
async function vitest(): Promise<TestResults> {
  const folder = await mkdtemp(join(tmpdir(), 'metalbar-test-'))
  const file = join(folder, 'results.json')
  try {
    const command = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', `--maxWorkers=${filesAtOnce}`]
    const passed = await runs(process.execPath, command, {
      [resultsVariable]: file,
      ...(long && { [longVariable]: '1' }),
    })
    const results = await readResults(file)
    if (passed || results.failed.length > 0) return results
    const broken = { project: 'tests', name: 'the run of Vitest', error: 'it broke off; its output is above' }
    return { ...results, failed: [broken] }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Nothing was counted when Vitest broke before it could count. */
async function readResults(file: string): Promise<TestResults> {
  const text = await readFile(file, 'utf8').catch(() => '{"passed":0,"failed":[],"skipped":[]}')
  return testResults.parse(JSON.parse(text))
}

async function runs(command: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<boolean> {
  const child = spawn(command, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } })
  await once(child, 'close')
  return child.exitCode === 0
}

async function timed(name: string, run: () => Promise<TestResults>): Promise<Suite> {
  const start = performance.now()
  const results = await run()
  return { name, minutes: (performance.now() - start) / 60_000, results }
}
