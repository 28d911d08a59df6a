import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  classicDialect,
  dialectFrom,
  LlamaServerDialects,
} from '../../../src/agent-core/runtimes/llama-server-dialect.ts'
import { llamaServerArgv } from '../../../src/agent-core/runtimes/llama-server.ts'

const env = { PATH: process.env['PATH'] ?? '' }
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'metalbar-dialect-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

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
  const binary = join(folder, 'llama-server')
  const install = async (help: string): Promise<void> => {
    await writeFile(binary, `#!/bin/sh\necho '${help}'\n`)
    await chmod(binary, 0o755)
  }
  const dialects = new LlamaServerDialects()
  await install('--mlock')
  const before = await dialects.of(binary, env)
  await install('--load-mode MODE mmap+mlock')
  expect([before, await dialects.of(binary, env)]).toMatchObject([
    { lockMemory: ['--mlock'], boundsPromptCache: false },
    { lockMemory: ['--load-mode', 'mmap+mlock'], boundsPromptCache: false },
  ])
})

test('a binary that has no help is started with the documented arguments', async () => {
  const binary = join(folder, 'silent')
  await writeFile(binary, '#!/bin/sh\nexit 1\n')
  await chmod(binary, 0o755)
  expect(await new LlamaServerDialects().of(binary, env)).toEqual(classicDialect)
})

test('a binary that did not answer is asked again at the next start, although its file is the same', async () => {
  const binary = join(folder, 'late')
  await writeFile(binary, `#!/bin/sh\ntest -e ${folder}/ready || exit 1\necho '--load-mode MODE mlock'\n`)
  await chmod(binary, 0o755)
  const dialects = new LlamaServerDialects()
  expect((await dialects.of(binary, env)).lockMemory).toEqual(['--mlock'])
  await writeFile(join(folder, 'ready'), '')
  expect((await dialects.of(binary, env)).lockMemory).toEqual(['--load-mode', 'mlock'])
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
