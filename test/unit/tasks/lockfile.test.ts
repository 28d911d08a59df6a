import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'

const file = path.join(import.meta.dirname, '../../../package-lock.json')
const lockfile = z.object({
  packages: z.record(
    z.string(),
    z.looseObject({
      resolved: z.string().optional(),
      integrity: z.string().optional(),
      optionalDependencies: z.record(z.string(), z.string()).default({}),
    }),
  ),
})

const read = async () => Object.entries(lockfile.parse(JSON.parse(await readFile(file, 'utf8'))).packages)

test('the lockfile has what other systems need too: without one part npm ci installs nothing on any of them', async () => {
  const packages = await read()
  const names = new Set(packages.map(([place]) => place.split('node_modules/').at(-1)))
  const wanted = packages.flatMap(([, { optionalDependencies }]) => Object.keys(optionalDependencies))
  expect([wanted.length > 50, wanted.filter((name) => !names.has(name))]).toEqual([true, []])
})

test('the lockfile names no host, so that whichever registry npm is set up with serves it', async () => {
  const packages = await read()
  expect(packages.filter(([, { resolved }]) => resolved !== undefined)).toEqual([])
})

test('the lockfile has the hash of every package, also of those for other systems', async () => {
  const packages = await read()
  expect(packages.filter(([place, { integrity }]) => place !== '' && integrity === undefined)).toEqual([])
})
