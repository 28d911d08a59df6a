import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parts } from './setup/parts.ts'
import { type MissingPart, setUp } from './setup/set-up.ts'
import { resultsVariable, type TestResults, testResults } from './test-results.ts'

const root = join(import.meta.dirname, '..')
const strict = process.env['CI'] === 'true'

interface Suite {
  readonly name: string
  readonly minutes: number
  readonly results: TestResults
}

process.exitCode = (await everything()) ? 0 : 1

/** What needs no real parts runs while they are built. @returns whether all of it went well. */
async function everything(): Promise<boolean> {
  const setup = timed('parts', () => setUpParts())
  const suites = [await check('format'), await check('lint'), await check('types'), await vitest('unit')]
  suites.push(
    await setup,
    await vitest('kube'),
    await vitest('agent'),
    await vitest('security'),
    await vitest('window'),
    await vitest('shell'),
  )
  summarize(suites)
  return suites.every(({ results }) => results.failed === 0)
}

async function setUpParts(): Promise<TestResults> {
  const missing = await setUp(parts, (line) => console.log(line))
  const fatal = missing.filter(({ part }) => strict && part.required)
  for (const { part, reason } of fatal) console.error(`FAILED: ${part.name} is required with CI=true: ${reason}`)
  return { passed: 0, failed: fatal.length, skipped: missing.filter((one) => !fatal.includes(one)).map(asSkipped) }
}

function asSkipped({ part, reason }: MissingPart): TestResults['skipped'][number] {
  return { name: `what needs ${part.name}`, reason }
}

/** An npm script that only passes or fails; a failure counts as one failed test. */
function check(script: string): Promise<Suite> {
  return timed(script, async () => {
    const passed = await runs('npm', ['run', '--silent', script])
    if (!passed) console.error(`FAILED: npm run ${script}`)
    return { passed: 0, failed: passed ? 0 : 1, skipped: [] }
  })
}

function vitest(project: string): Promise<Suite> {
  return timed(project, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'metalbar-test-'))
    const file = join(folder, 'results.json')
    try {
      const command = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--project', project, '--passWithNoTests']
      const passed = await runs(process.execPath, command, { [resultsVariable]: file })
      const results = await readResults(file)
      return passed || results.failed > 0 ? results : { ...results, failed: 1 }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
}

/** Nothing was counted when Vitest found no test, or broke before it could count; its exit code tells which. */
async function readResults(file: string): Promise<TestResults> {
  const text = await readFile(file, 'utf8').catch(() => '{"passed":0,"failed":0,"skipped":[]}')
  return testResults.parse(JSON.parse(text))
}

async function runs(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<boolean> {
  const child = spawn(command, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } })
  await once(child, 'close')
  return child.exitCode === 0
}

async function timed(name: string, run: () => Promise<TestResults>): Promise<Suite> {
  const start = performance.now()
  const results = await run()
  return { name, minutes: (performance.now() - start) / 60_000, results }
}

/** The last line is for programs too: it keeps its form. */
function summarize(suites: readonly Suite[]): void {
  const skipped = suites.flatMap(({ results }) => results.skipped)
  const total = (kind: 'passed' | 'failed') => suites.reduce((sum, { results }) => sum + results[kind], 0)
  const failing = suites.filter(({ results }) => results.failed > 0).map(({ name }) => name)
  console.log(`\nMinutes: ${suites.map(({ name, minutes }) => `${name} ${minutes.toFixed(1)}`).join(', ')}`)
  if (skipped.length > 0) console.log('Skipped:')
  for (const { name, reason } of skipped) console.log(`  ${name} (${reason})`)
  if (failing.length > 0) console.log(`Failed: ${failing.join(', ')}`)
  console.log(`${total('passed')} passed, ${total('failed')} failed, ${skipped.length} skipped`)
}
