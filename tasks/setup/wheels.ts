import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { onPath, run } from './tools.ts'

/** The oldest Python that the pinned wheels run on. */
const oldestPython = [3, 10] as const

/** What this machine lacks to install wheels, with where to get it; undefined when nothing. `instead` completes "…, or <instead>". */
export async function missingPython(instead: string): Promise<string | undefined> {
  const wanted = `Python ${oldestPython.join('.')} or newer`
  const get = `get it from https://www.python.org/downloads/, or ${instead}`
  if (onPath('python3') === undefined) return `${wanted} is needed: ${get}`
  const { stdout } = await promisify(execFile)('python3', ['-c', 'import sys; print(*sys.version_info[:2])'])
  const [major = 0, minor = 0] = stdout.trim().split(' ').map(Number)
  const isOld = major < oldestPython[0] || (major === oldestPython[0] && minor < oldestPython[1])
  return isOld ? `${wanted} is needed, and python3 is ${major}.${minor}: ${get}` : undefined
}

/** A virtual environment `venv` in the folder, with the wheels of a requirements file that pins each by version and hash. */
export async function installWheels(folder: string, requirements: string, logFile: string): Promise<void> {
  const venv = join(folder, 'venv')
  const pip = ['-m', 'pip', '--no-input', '--disable-pip-version-check', '--timeout', '15', '--retries', '2']
  const install = ['install', '--no-cache-dir', '--no-deps', '--only-binary', ':all:', '--require-hashes']
  try {
    await run('python3', ['-m', 'venv', venv], { logFile })
    await run(join(venv, 'bin', 'python'), [...pip, ...install, '-r', requirements], { logFile })
  } catch (cause) {
    const problem = problemIn(cause instanceof Error ? cause.message : String(cause))
    throw new Error(`Python could not install the wheels: ${problem} (the whole log: ${logFile})`, { cause })
  }
}

/**
 * The error in what Python or pip printed, in one sentence. pip 23 to 26 writes "Retrying (" where a registry does not answer, and then claims
 * that there is no such package.
 */
function problemIn(printed: string): string {
  if (printed.includes('Retrying (')) return 'the package registry does not answer'
  const lines = printed.split('\n').map((line) => line.trim())
  const error = lines.findLast((line) => /^(?:ERROR|\w*Error): /.test(line)) ?? lines.at(-1) ?? ''
  const [sentence = ''] = error.replace(/^ERROR: /, '').split('. ')
  return sentence.replace(/\b[A-Z]{2,}\b/g, (word) => word.toLowerCase())
}
