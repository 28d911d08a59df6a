import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Runtimes } from '../../../src/agent-core/api/machine-queries.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function told(folder: string, script: string) {
  const path = join(folder, 'llama-server')
  await writeFile(path, `#!/bin/sh\n${script}\n`)
  await chmod(path, 0o755)
  const { runtimes: found } = await new Runtimes().view(['llama-server'], () =>
    Promise.resolve({ kind: 'found', path }),
  )
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
  const { runtimes: found } = await new Runtimes().view(['llama-server'], () =>
    Promise.resolve({ kind: 'found', path: join(folder.dir, 'gone') }),
  )
  expect(found).toMatchObject([
    { name: 'llama-server', message: expect.stringContaining('could not be run') as unknown },
  ])
})

test('where it is missing it is said what to do', async () => {
  const message = 'llama-server is not installed here: install it with "brew install llama.cpp".'
  expect(await new Runtimes().view(['llama-server'], () => Promise.resolve({ kind: 'missing', message }))).toEqual({
    runtimes: [{ name: 'llama-server', message }],
  })
})

test('questions at once start llama-server once, and later ones only after its file has changed', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.dir, 'llama-server')
  const starts = join(folder.dir, 'starts')
  const write = async (version: string) => {
    await writeFile(path, `#!/bin/sh\necho started >> '${starts}'\necho 'version: ${version}'\n`)
    await chmod(path, 0o755)
  }
  const found = new Runtimes()
  const version = async () =>
    (await found.view(['llama-server'], () => Promise.resolve({ kind: 'found', path }))).runtimes[0]?.version
  const started = async () => (await readFile(starts, 'utf8')).trim().split('\n').length
  await write('1')
  expect([await Promise.all([version(), version(), version()]), await version(), await started()]).toEqual([
    ['1', '1', '1'],
    '1',
    1,
  ])
  await write('22')
  expect([await version(), await version(), await started()]).toEqual(['22', '22', 2])
})

test('one that could not be run is asked again', async () => {
  await using folder = await temporaryFolder()
  const path = join(folder.dir, 'llama-server')
  const found = new Runtimes()
  const view = async () =>
    (await found.view(['llama-server'], () => Promise.resolve({ kind: 'found', path }))).runtimes[0]
  await writeFile(path, "#!/bin/sh\necho 'version: 7'\n")
  expect((await view())?.message).toContain('could not be run')
  await chmod(path, 0o755)
  expect((await view())?.version).toBe('7')
})
