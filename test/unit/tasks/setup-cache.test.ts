import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { buildOnce, cacheFolder, partFolder } from '../../../tasks/setup/cache.ts'

let base: string

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'metalbar-cache-'))
  vi.stubEnv('XDG_CACHE_HOME', base)
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(base, { recursive: true, force: true })
})

test('two runs that need the same part build it once, and both find it whole', async () => {
  const folder = partFolder('part', '1', [])
  let builds = 0
  const both = [1, 2].map(async () => {
    await buildOnce(folder, async (work) => {
      builds += 1
      await writeFile(join(work, 'first'), 'a')
      await writeFile(join(work, 'last'), 'b')
    })
    return readdir(folder)
  })
  expect([await Promise.all(both), builds]).toEqual([
    [
      ['first', 'last'],
      ['first', 'last'],
    ],
    1,
  ])
})

test('a build that fails leaves nothing behind and can be tried again', async () => {
  const folder = partFolder('part', '1', [])
  const failing = buildOnce(folder, async (work) => {
    await writeFile(join(work, 'half'), 'a')
    throw new Error('the compiler says no')
  })
  await expect(failing).rejects.toThrow('the compiler says no')
  expect(await readdir(cacheFolder())).toEqual([])
  await buildOnce(folder, (work) => writeFile(join(work, 'whole'), 'b'))
  expect(await readFile(join(folder, 'whole'), 'utf8')).toBe('b')
})

test('the lock of a run that was killed is taken over', async () => {
  const folder = partFolder('part', '1', [])
  const pidOfNobody = 2 ** 22 + 1 // above the largest pid of Linux and macOS
  await mkdir(cacheFolder(), { recursive: true })
  await writeFile(`${folder}.lock`, String(pidOfNobody))
  await buildOnce(folder, (work) => writeFile(join(work, 'whole'), 'b'))
  expect(await readdir(folder)).toEqual(['whole'])
})

test('another version and other inputs are another folder', () => {
  const folders = [partFolder('part', '1', ['a']), partFolder('part', '2', ['a']), partFolder('part', '1', ['b'])]
  expect(new Set(folders).size).toBe(3)
})
