import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { runtimeState } from '../../../src/contract/queries.ts'
import { Dialects } from '../../../src/agent-core/runtimes/dialect.ts'
import { InstalledRuntimes } from '../../../src/agent-core/runtimes/installed.ts'
import { mlxLmRuntime } from '../../../src/agent-core/runtimes/mlx-lm.ts'
import type { ServerRuntime } from '../../../src/agent-core/servers/probe.ts'
import type { Executable } from '../../../src/agent-core/util/find-executable.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
beforeEach(async () => {
  folder = await temporaryFolder()
  return () => folder[Symbol.asyncDispose]()
})

async function program(script: string, name = 'llama-server'): Promise<string> {
  const path = join(folder.dir, name)
  await writeFile(path, `#!/bin/sh\n${script}\n`)
  await chmod(path, 0o755)
  return path
}

type Options = Pick<ConstructorParameters<typeof InstalledRuntimes>[0], 'onChange' | 'limitMs'>

const installed = (found: Executable, runtime: ServerRuntime = 'llama-server', options: Options = {}) =>
  new InstalledRuntimes({
    offered: () => [runtime],
    find: () => Promise.resolve(found),
    dialects: new Dialects(),
    ...options,
  })

async function told(path: string, runtime?: ServerRuntime, options?: Options) {
  const [view] = await installed({ kind: 'found', path }, runtime, options).look()
  return { ...view, state: view && runtimeState(view) }
}

test('llama-server is found with the version that it tells of itself and the format that it serves', async () => {
  const path = await program(
    "echo 'load_backend: loaded CPU' >&2; echo 'version: 6500 (0e6fdc9a)' >&2; echo 'built with clang'",
  )
  expect(await told(path)).toEqual({
    ...{ name: 'llama-server', formats: ['gguf'], path, version: '6500 (0e6fdc9a)', state: 'ready' },
  })
})

test('a daemon that does not answer holds up no start: it is asked for when all runtimes are looked at', async () => {
  const path = await program('echo 0')
  const room = new InstalledRuntimes({
    ...{ offered: () => ['llama-server', 'ollama'], dialects: new Dialects() },
    find: ({ kind }) => (kind === 'daemon' ? new Promise(() => undefined) : Promise.resolve({ kind: 'found', path })),
  })
  await room.find()
  expect(room.found).toEqual(['llama-server'])
})

test('a program that is there is found before it has answered, and is found no longer once it is gone', async () => {
  const path = await program('exec sleep 30')
  const binaries: Executable[] = [
    { kind: 'found', path },
    { kind: 'missing', message: 'It is gone.' },
  ]
  const room = new InstalledRuntimes({
    ...{ offered: () => ['llama-server'], dialects: new Dialects(), limitMs: 50 },
    find: () => Promise.resolve(binaries.shift() ?? { kind: 'found', path }),
  })
  await room.find()
  expect([room.found, room.known]).toEqual([['llama-server'], undefined])
  await room.look()
  expect(room.found).toEqual([])
})

test('what did not answer is told until it is mended or gone, and not before it was asked', async () => {
  const path = await program('exit 1')
  let binary: Executable = { kind: 'found', path }
  const room = new InstalledRuntimes({
    ...{ offered: () => ['llama-server'], dialects: new Dialects(), find: () => Promise.resolve(binary) },
  })
  const unverified = () => [...room.unverified.keys()]
  await room.find()
  const before = unverified()
  await room.look()
  const broken = unverified()
  binary = { kind: 'missing', message: 'It is gone.' }
  await room.find()
  const gone = unverified()
  await program("echo 'version: 7'")
  binary = { kind: 'found', path }
  await room.look()
  expect([before, broken, gone, unverified()]).toEqual([[], ['llama-server'], [], []])
})

const advice = 'Install llama.cpp again, or name another one with --llama-server.'

test('what prints junk, or far too much, is told apart from what answers, in one sentence', async () => {
  const junk = await told(await program("printf 'hello\\033[2J'; exit 1"))
  const flood = await told(await program('yes version'))
  const path = join(folder.dir, 'llama-server')
  const unverified = (why: string) => ({
    ...{ name: 'llama-server', formats: ['gguf'], path, message: `${why} ${advice}`, state: 'unverified' },
  })
  expect([junk, flood]).toEqual([
    unverified(`${path} does not report its version as llama-server does.`),
    unverified(`${path} printed more than 65536 bytes.`),
  ])
})

test('what hangs is ended when its time is up, with what it started', async () => {
  const path = await program(`echo $$ > '${folder.dir}/pid'; sleep 300`)
  expect(await told(path, 'llama-server', { limitMs: 500 })).toMatchObject({
    state: 'unverified',
    message: `${path} did not answer within 500 ms. ${advice}`,
  })
  const pid = Number(await readFile(join(folder.dir, 'pid'), 'utf8'))
  expect(() => process.kill(pid, 0)).toThrow('ESRCH')
})

test('the program llama, whose command serve is llama-server, is named as what it is', async () => {
  const path = await program("echo 'llama 0.32 (build 11434)\n\ncommands:\n  serve     start the server'", 'llama')
  expect(await told(path)).toMatchObject({
    state: 'unverified',
    message: `${path} is the program llama, whose server is "llama serve": give the path of llama-server, or of a script that runs llama serve "$@", with --llama-server.`,
  })
})

test('a vllm-swift that serves models of its own choice is said to be too old, with the version that is not', async () => {
  const path = await program("echo 'vllm-swift 0.3.1'", 'vllm-swift')
  expect(await told(path, 'vllm-swift')).toMatchObject({
    ...{ version: '0.3.1', state: 'unverified' },
    message: `${path} is version 0.3.1, which may serve a different model from the one it is given. Upgrade vllm-swift: 0.3.2 is the oldest that does not.`,
  })
})

test('an mlx-lm whose server does not run is not taken for one because the program beside it does', async () => {
  await program("echo '0.32.2'", 'mlx_lm')
  const path = await program('exit 1', 'mlx_lm.server')
  expect(await told(path, 'mlx-lm')).toMatchObject({
    state: 'unverified',
    message: expect.stringContaining(`${path} does not answer --help.`) as unknown,
  })
})

test('where it is missing the line that installs it is said', async () => {
  const message = mlxLmRuntime.program.notInstalled.darwin
  expect(await installed({ kind: 'missing', message }, 'mlx-lm').look()).toEqual([
    { name: 'mlx-lm', formats: ['mlx', 'safetensors'], message },
  ])
})

test('looks at once start llama-server once, and later ones only after its file has changed', async () => {
  const starts = join(folder.dir, 'starts')
  const write = (version: string) => program(`echo started >> '${starts}'\necho 'version: ${version}'`)
  const path = await write('1')
  const seen: (string | undefined)[] = []
  const found: InstalledRuntimes = installed({ kind: 'found', path }, 'llama-server', {
    onChange: () => seen.push(found.known?.[0]?.version),
  })
  const version = async () => (await found.look({ again: true }))[0]?.version
  const started = async () => (await readFile(starts, 'utf8')).trim().split('\n').length
  expect([await Promise.all([version(), version(), version()]), await version(), await started()]).toEqual([
    ['1', '1', '1'],
    '1',
    1,
  ])
  await write('22')
  expect([await version(), await version(), await started()]).toEqual(['22', '22', 2])
  expect(seen).toEqual(['1', '22'])
})

test('one that did not answer is run again for a person who asks, and not at every heartbeat', async () => {
  const starts = join(folder.dir, 'starts')
  const path = await program(`echo started >> '${starts}'\n[ -e '${folder.dir}/mended' ] && echo 'version: 7'`)
  const found = installed({ kind: 'found', path })
  const started = async () => (await readFile(starts, 'utf8')).trim().split('\n').length
  await found.look()
  await found.look()
  // For its version, and for its help.
  const before = await started()
  await writeFile(join(folder.dir, 'mended'), '')
  const asked = await Promise.all([found.look({ again: true }), found.look({ again: true })])
  expect([before, asked.map(([view]) => view?.version), await started()]).toEqual([2, ['7', '7'], 3])
})

test('one that may not be run is tried again once its rights have changed', async () => {
  const path = await program("echo 'version: 7'")
  await chmod(path, 0o644)
  const found = installed({ kind: 'found', path })
  expect((await found.look())[0]?.message).toContain('could not be run')
  await chmod(path, 0o755)
  expect((await found.look())[0]?.version).toBe('7')
})
