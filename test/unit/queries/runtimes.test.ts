import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runtimes } from '../../../src/agent-core/queries/runtimes.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function told(folder: string, script: string) {
  const path = join(folder, 'llama-server')
  await writeFile(path, `#!/bin/sh\n${script}\n`)
  await chmod(path, 0o755)
  const { runtimes: found } = await runtimes(() => Promise.resolve({ kind: 'found', path }))
  return found.map(({ name, version, message }) => ({ name, version, message }))
}

test('llama-server is found with the version that it tells of itself', async () => {
  await using folder = await temporaryFolder()
  const script = "echo 'load_backend: loaded CPU' >&2; echo 'version: 6500 (0e6fdc9a)' >&2; echo 'built with clang'"
  expect(await told(folder.dir, script)).toEqual([{ name: 'llama-server', version: '6500 (0e6fdc9a)' }])
})

test('what tells no version, or cannot be run, is found without one', async () => {
  await using folder = await temporaryFolder()
  expect(await told(folder.dir, 'echo hello')).toEqual([{ name: 'llama-server' }])
  const { runtimes: found } = await runtimes(() => Promise.resolve({ kind: 'found', path: join(folder.dir, 'gone') }))
  expect(found).toMatchObject([
    { name: 'llama-server', message: expect.stringContaining('could not be run') as unknown },
  ])
})

test('where it is missing it is said what to do', async () => {
  const message = 'llama-server is not installed here: install it with "brew install llama.cpp".'
  expect(await runtimes(() => Promise.resolve({ kind: 'missing', message }))).toEqual({
    runtimes: [{ name: 'llama-server', message }],
  })
})
