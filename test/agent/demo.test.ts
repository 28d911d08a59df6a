import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'

const program = join(import.meta.dirname, '../../demo/main.ts')

/** What a demo prints, with its exit code on the last line. */
async function run(env: Readonly<Record<string, string | undefined>> = {}): Promise<string> {
  const demo = spawn(process.execPath, [program], { env: { ...process.env, ONCE: '1', ...env } })
  const [, output, errors] = await Promise.all([once(demo, 'close'), text(demo.stdout), text(demo.stderr)])
  return `${output}${errors}\nexit code ${demo.exitCode ?? 'none'}`
}

test('a demo serves a real model, beside one that makes do with a sample on a machine without Python', async () => {
  await using empty = await temporaryFolder()
  await symlink(process.execPath, join(empty.dir, 'node'))
  const bare = { PATH: empty.dir, LLAMA_SERVER: undefined, XDG_CACHE_HOME: empty.dir }
  const [real, sample] = await Promise.all([run(), run(bare)])
  expect(real).toMatch(/^Model {5}SmolLM2-135M-Instruct, [\d.]+ MB/m)
  expect(real).toMatch(/^ {2}[A-Z]\w*( [\w(),'-]+){5}/m)
  expect(real).toMatch(/tokens\/s: \d/)
  expect(sample).toMatch(/^Engine {4}a sample that makes up its answers: Python 3\.10 or newer is needed: get it from/m)
  for (const output of [real, sample]) {
    expect(output).toMatch(/greedy waits\. Needs [\d.]+ GB, more than the whole budget/)
    expect(output).not.toMatch(/FAILURE|WARNING|ERROR|cannot continue/)
    expect(output).toMatch(/exit code 0$/)
  }
})
