import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  findLlamaServer,
  classicDialect,
  dialectFrom,
  llamaServerRuntime,
} from '../../../src/agent-core/runtimes/llama-server.ts'
import { Dialects } from '../../../src/agent-core/runtimes/dialect.ts'
import { llamaServerArgv } from '../../../src/agent-core/runtimes/llama-server.ts'

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
  [['plain', 'llama-server'], 'it is not executable by this user'],
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
      'llama-server is not installed here: install it with "brew install llama.cpp", or give its path with --llama-server.',
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
    message: `${inFolder('plain', 'llama-server')} cannot be used as llama-server: it is not executable by this user.`,
  })
})

const env = { PATH: process.env['PATH'] ?? '' }
let scripts: string
beforeAll(async () => {
  scripts = await mkdtemp(join(tmpdir(), 'metalbar-dialect-'))
})
afterAll(() => rm(scripts, { recursive: true, force: true }))

test.each([
  ['  --mlock   force system to keep model in RAM', ['--mlock']],
  ['-lm, --load-mode MODE  - mlock: keep in RAM - mmap+mlock: both', ['--load-mode', 'mmap+mlock']],
  ['-lm, --load-mode MODE  - mlock: keep in RAM', ['--load-mode', 'mlock']],
  ['  --port PORT', []],
])('a build whose help says "%s" locks its memory with %j', (help, lockMemory) => {
  expect(dialectFrom(help)).toMatchObject({ lockMemory, boundsPromptCache: false, reserve: [] })
})

test('a build whose help knows --cache-ram can keep its cache of prompts in bounds', () => {
  expect(dialectFrom('-cram, --cache-ram N  set the maximum cache size in MiB')).toMatchObject({
    lockMemory: [],
    boundsPromptCache: true,
  })
})

test('a build that can keep pages in a browser and the prompts of others away is told to', () => {
  const { reserve } = dialectFrom('--cors-origins ORIGINS   comma-separated list\n--slots, --no-slots   expose slots')
  const argv = llamaServerArgv({
    spec: { extraArgs: ['--seed', '1'] },
    modelPath: '/m',
    port: 1,
    dialect: { lockMemory: [], boundsPromptCache: false, reserve, flags: undefined },
  })
  expect(reserve).toEqual(['--cors-origins', '', '--no-slots'])
  expect(argv.indexOf('--no-slots')).toBeLessThan(argv.indexOf('--seed'))
})

test('a binary that was replaced is asked again', async () => {
  const binary = join(scripts, 'llama-server')
  const install = async (help: string): Promise<void> => {
    await writeFile(binary, `#!/bin/sh\necho '${help}'\n`)
    await chmod(binary, 0o755)
  }
  const dialects = new Dialects()
  await install('--mlock')
  const before = await dialects.of(llamaServerRuntime, binary, env)
  await install('--load-mode MODE mmap+mlock')
  expect([before, await dialects.of(llamaServerRuntime, binary, env)]).toMatchObject([
    { lockMemory: ['--mlock'], boundsPromptCache: false },
    { lockMemory: ['--load-mode', 'mmap+mlock'], boundsPromptCache: false },
  ])
})

test('a binary that has no help is started with the documented arguments', async () => {
  const binary = join(scripts, 'silent')
  await writeFile(binary, '#!/bin/sh\nexit 1\n')
  await chmod(binary, 0o755)
  expect(await new Dialects().of(llamaServerRuntime, binary, env)).toEqual(classicDialect)
})

test('a binary that did not answer is asked again at the next start, although its file is the same', async () => {
  const binary = join(scripts, 'late')
  await writeFile(binary, `#!/bin/sh\ntest -e ${scripts}/ready || exit 1\necho '--load-mode MODE mlock'\n`)
  await chmod(binary, 0o755)
  const dialects = new Dialects()
  expect((await dialects.of(llamaServerRuntime, binary, env)).lockMemory).toEqual(['--mlock'])
  await writeFile(join(scripts, 'ready'), '')
  expect((await dialects.of(llamaServerRuntime, binary, env)).lockMemory).toEqual(['--load-mode', 'mlock'])
})

test('the other spelling takes the place of --mlock in the command line', () => {
  const argv = llamaServerArgv({
    spec: {},
    modelPath: '/m',
    port: 1,
    dialect: { lockMemory: ['--load-mode', 'mmap+mlock'], boundsPromptCache: true, reserve: [], flags: undefined },
  })
  expect(argv.slice(argv.indexOf('--flash-attn'), argv.indexOf('--batch-size'))).toEqual([
    '--flash-attn',
    'on',
    '--load-mode',
    'mmap+mlock',
  ])
})
