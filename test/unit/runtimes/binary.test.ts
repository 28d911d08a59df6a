import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findLlamaServer } from '../../../src/agent-core/runtimes/binary.ts'

let folder = ''
const inFolder = (...parts: string[]) => join(folder, ...parts)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'binary-'))
  await Promise.all(['good', 'plain', 'empty'].map((name) => mkdir(inFolder(name))))
  await writeFile(inFolder('good', 'llama-server'), '#!/bin/sh\n')
  await chmod(inFolder('good', 'llama-server'), 0o755)
  await writeFile(inFolder('plain', 'llama-server'), 'not executable', { mode: 0o644 })
})
afterAll(() => rm(folder, { recursive: true }))

const nowhere = { homebrewFolders: [] }

test('a given path that is an executable file is taken', async () => {
  const given = inFolder('good', 'llama-server')
  expect(await findLlamaServer({ given, system: 'darwin' })).toEqual({ kind: 'found', path: given })
})

test('a given bare name is found on PATH', async () => {
  expect(await findLlamaServer({ given: 'llama-server', system: 'darwin', path: inFolder('good') })).toEqual({
    kind: 'found',
    path: inFolder('good', 'llama-server'),
  })
})

test.each([
  [['empty', 'llama-server'], 'there is no such file'],
  [['good'], 'it is not a file'],
  [['plain', 'llama-server'], 'it is not executable for this user'],
])('a given path that cannot be used (%j) is named with the reason', async (parts, problem) => {
  const given = inFolder(...parts)
  expect(await findLlamaServer({ given, system: 'darwin' })).toEqual({
    kind: 'missing',
    message: `${given} was given as llama-server (--llama-server), but ${problem}: correct the path.`,
  })
})

test('Homebrew’s folders are searched in order, an unusable file does not hide a usable one', async () => {
  const homebrewFolders = [inFolder('empty'), inFolder('plain'), inFolder('good')]
  expect(await findLlamaServer({ system: 'darwin', homebrewFolders })).toEqual({
    kind: 'found',
    path: inFolder('good', 'llama-server'),
  })
})

test('PATH is searched on Linux, and on macOS only when asked', async () => {
  const path = `relative:${inFolder('good')}`
  expect(await findLlamaServer({ ...nowhere, system: 'linux', path })).toMatchObject({ kind: 'found' })
  expect(await findLlamaServer({ ...nowhere, system: 'darwin', path })).toEqual({
    kind: 'missing',
    message:
      'llama-server is not installed here: install it with "brew install llama.cpp", or say where it is with --llama-server.',
  })
})

test('on Linux the folder of Homebrew is searched after PATH, and on macOS not', async () => {
  const search = { ...nowhere, path: inFolder('empty'), linuxHomebrewFolder: inFolder('good') }
  expect(await findLlamaServer({ ...search, system: 'linux' })).toMatchObject({
    path: inFolder('good', 'llama-server'),
  })
  expect(await findLlamaServer({ ...search, system: 'darwin' })).toMatchObject({ kind: 'missing' })
})

test('a file that is there but not executable is the reason', async () => {
  expect(await findLlamaServer({ system: 'darwin', homebrewFolders: [inFolder('plain')] })).toEqual({
    kind: 'missing',
    message: `${inFolder('plain', 'llama-server')} cannot be used as llama-server: it is not executable for this user.`,
  })
})
