import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { execa } from 'execa'
import { beforeAll, afterAll, expect, test } from 'vitest'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { carryOut, planFor } from '../../../src/agent-core/runtimes/getting.ts'
import { ownProgramFolder } from '../../../src/agent-core/runtimes/installed.ts'
import { findExecutable } from '../../../src/agent-core/util/find-executable.ts'
import { mlxLmRuntime } from '../../../src/agent-core/runtimes/mlx-lm.ts'
import { main } from '../../../src/cli/main.ts'
import type { Installer, RuntimeDeed } from '../../../src/contract/commands.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const shelf = await temporaryFolder()
afterAll(() => shelf[Symbol.asyncDispose]())

/** Wheels for the real pip: programs that answer as mlx-lm's do, and no more. */
const makeWheels = `
import sys, zipfile
def wheel(name, version, files, scripts='', more=''):
    info = f'{name}-{version}.dist-info'
    with zipfile.ZipFile(f'{sys.argv[1]}/{name}-{version}-py3-none-any.whl', 'w') as made:
        for file, text in files.items(): made.writestr(file, text)
        made.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n{more}')
        made.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        if scripts: made.writestr(f'{info}/entry_points.txt', '[console_scripts]\\n' + scripts)
        made.writestr(f'{info}/RECORD', '')
flags = '--model --host --port --allowed-origins --log-level --decode-concurrency --prompt-concurrency --prompt-cache-bytes --prompt-cache-size'
def server(flags): return f"""
import sys
def main(): print(sys.argv[1:] == ['--version'] and VERSION or 'usage: {flags}')
def serve():
    if '--help' in sys.argv: return main()
    print('serves', flush=True)
    sys.stdin.read()
"""
for version, known in (('0.32.2', flags), ('0.33.0', flags), ('0.34.0', '--model --host --port')):
    body = server(known).replace('VERSION', repr(version))
    wheel('mlx_lm', version, {'mlx_lm/__init__.py': body}, 'mlx_lm = mlx_lm:main\\nmlx_lm.server = mlx_lm:serve\\n')
wheel('mlx', '1.0', {'mlx/__init__.py': ''}, more='Provides-Extra: cpu\\n')
`
const platform = hostPlatform()

beforeAll(async () => {
  await execa('python3', ['-c', makeWheels, shelf.dir])
})

interface Wish {
  readonly by?: Installer
  readonly signal?: AbortSignal
  readonly onOutput?: (text: string) => unknown
}

/** A state folder whose name has a space, as on a Mac, and the real pip, which knows the wheels above and no index. */
async function machine() {
  const folder = await temporaryFolder()
  const stateDir = path.join(folder.dir, 'Application Support')
  await mkdir(stateDir)
  const constraints = path.join(folder.dir, 'constraints.txt')
  const env = { ...process.env, PIP_NO_INDEX: '1', PIP_FIND_LINKS: shelf.dir, PIP_CONSTRAINT: constraints }
  const homebrewFolders = [path.join(folder.dir, 'brew', 'bin')]
  const options = { stateDir, system: 'linux' as const, env, homebrewFolders }
  const ownFolder = ownProgramFolder(stateDir, 'mlx-lm')
  return {
    ...options,
    dir: folder.dir,
    ownFolder,
    environments: () => readdir(path.join(stateDir, 'runtimes', 'mlx-lm')),
    find: () => findExecutable(mlxLmRuntime.program, { system: 'linux', path: '', ownFolder, homebrewFolders }),
    version: async () => (await execa(path.join(ownFolder, 'mlx_lm'), ['--version'])).stdout,
    /** The newest mlx-lm that pip gets. */
    takes: (newest: string) => writeFile(constraints, `mlx-lm<=${newest}\n`),
    async do(deed: RuntimeDeed, { by = 'pip', ...how }: Wish = {}) {
      const plan = await planFor('mlx-lm', deed, options, by)
      const signal = new AbortController().signal
      return carryOut(plan, { ...options, platform, signal, onOutput: () => undefined, ...how })
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}

/** `metal-agent runtimes …`; with answers a person types them. */
async function verb({ env, stateDir, dir }: Awaited<ReturnType<typeof machine>>, words: string[], answers?: string[]) {
  const said = { stdout: '', stderr: '' }
  const code = await main(['runtimes', ...words, '--state-dir', stateDir], {
    stdout: { write: (text: string) => (said.stdout += text) },
    stderr: { write: (text: string) => (said.stderr += text) },
    ...(answers && { ask: () => Promise.resolve(answers.shift()) }),
    ...{ env, platform: 'linux', homeDir: dir, temporaryDir: tmpdir(), cwd: dir, windowFolder: dir },
  })
  return { code, ...said }
}

test('a person sees the commands and is asked before anything is done; without a terminal nothing is', async () => {
  await using here = await machine()
  const shown = /^mlx-lm: these commands will run\.\n {2}\S*python3 -m venv .*\n.* install .*mlx-lm>=0\.32\.2.*\n\n$/
  const install = ['install', 'mlx-lm', '--with', 'pip']
  expect(await verb(here, install)).toEqual({
    ...{ code: 4, stdout: expect.stringMatching(shown) as string },
    stderr: 'metal-agent: There is no terminal to confirm on: run it again with --yes.\n',
  })
  expect(await verb(here, install, ['n'])).toMatchObject({ code: 4, stderr: '' })
  expect(await readdir(here.stateDir)).toEqual([])
  expect(await verb(here, ['install', 'mlx'])).toMatchObject({ code: 2 })
  expect(await verb(here, ['install', 'mlx-lm', '--with', 'port'])).toEqual({
    ...{ code: 2, stdout: '', stderr: 'metal-agent: --with takes brew, uv, pip.\n' },
  })
})

test('by the real pip it is installed, brought up to date, gone back from and removed, and only one that runs as it should counts', async () => {
  await using here = await machine()
  expect(await here.find()).toMatchObject({ kind: 'missing' })
  await here.takes('0.32.2')
  const { stdout } = await verb(here, ['install', 'mlx-lm', '--with', 'pip'], ['y'])
  expect(stdout).toMatch(/\n\$ \S*python3 -m venv '.*Application Support.*'\n[^]*Successfully installed/)
  expect(stdout).toContain('mlx-lm 0.32.2 is installed. Running servers keep')
  expect(await here.find()).toEqual({ kind: 'found', path: path.join(here.ownFolder, 'mlx_lm.server') })

  await expect(here.do('install')).rejects.toThrow('It is already installed: run metal-agent runtimes update mlx-lm')
  await expect(here.do('update', { by: 'brew' })).rejects.toThrow('remove it first, then install it with Homebrew')
  await here.takes('0.33.0')
  expect(await here.do('update')).toMatch(/^mlx-lm 0\.33\.0 is installed\. /)
  const list = await verb(here, ['list'])
  expect(list.stdout).toMatch(/mlx-lm +0\.33\.0 +mlx, safetensors +ready +\S.*Application Support\/runtimes\/mlx-lm/)
  const before = await here.environments()
  await here.takes('0.34.0')
  await expect(here.do('update')).rejects.toThrow(
    /^It was installed, but does not run properly: .* is too old: it does not know --allowed-origins/,
  )
  expect(await here.environments()).toEqual(before)
  expect(await here.version()).toBe('0.33.0')
  expect(await here.do('rollback')).toMatch(/^mlx-lm is 0\.32\.2 again\. /)
  expect(await here.version()).toBe('0.32.2')

  const server = spawn(path.join(here.ownFolder, 'mlx_lm.server'), [], { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(server.stdout, 'data')
  await expect(here.do('remove')).rejects.toThrow(
    `A server runs from it (process ${server.pid}): stop its service, then remove mlx-lm.`,
  )
  server.stdin.end()
  await once(server, 'exit')
  expect(await here.do('remove')).toBe('mlx-lm is removed.')
  expect(await here.find()).toMatchObject({ kind: 'missing' })
})

test('cancelled it leaves nothing, and while one is at work another is refused', async () => {
  await using here = await machine()
  await here.takes('0.32.2')
  const cancelled = new AbortController()
  const begun = Promise.withResolvers<undefined>()
  const first = here.do('install', {
    signal: cancelled.signal,
    onOutput: (text) => text.includes(' pip install ') && begun.resolve(undefined),
  })
  const ended = expect(first).rejects.toThrow('enough')
  await begun.promise
  await expect(here.do('install')).rejects.toThrow(`Process ${process.pid} has been working on mlx-lm since `)
  cancelled.abort(new Error('enough'))
  await ended
  expect(await here.environments()).toEqual([])
})

/** A Homebrew that says what it is asked, and puts a formula's programs where the real one does. */
const brew = (root: string) => `#!/bin/sh
echo "brew $*"
case "$1" in
  install) mkdir -p '${root}/Cellar/mlx-lm/1'; for program in mlx_lm mlx_lm.server; do
    cp '${root}/program' '${root}/Cellar/mlx-lm/1/'$program; ln -s '${root}/Cellar/mlx-lm/1/'$program '${root}/bin/'$program; done ;;
  uninstall) rm -r '${root}/Cellar' '${root}/bin/mlx_lm' '${root}/bin/mlx_lm.server' ;;
  upgrade) echo 'Error: the network is down' >&2; exit 3 ;;
esac
`
const ourFlags =
  '--model --host --port --allowed-origins --log-level --decode-concurrency --prompt-concurrency --prompt-cache-bytes --prompt-cache-size'
const program = `#!/bin/sh\ncase "$1" in --version) echo 0.32.2 ;; *) echo 'usage: ${ourFlags}' ;; esac\n`

test('Homebrew comes first, updates and removes what it installed, and its own words are told where it fails', async () => {
  await using here = await machine()
  const root = path.join(here.dir, 'brew')
  await mkdir(path.join(root, 'bin'), { recursive: true })
  await writeFile(path.join(root, 'program'), program, { mode: 0o755 })
  await writeFile(path.join(root, 'bin', 'brew'), brew(root), { mode: 0o755 })
  const run = async (deed: RuntimeDeed) =>
    carryOut(await planFor('mlx-lm', deed, here), {
      ...{ ...here, platform, signal: new AbortController().signal, onOutput: () => undefined },
    })
  expect((await planFor('mlx-lm', 'install', here)).commands).toEqual([`${root}/bin/brew install mlx-lm`])
  expect((await planFor('omlx', 'install', here)).commands).toEqual([
    `${root}/bin/brew tap jundot/omlx https://github.com/jundot/omlx`,
    `${root}/bin/brew install jundot/omlx/omlx`,
  ])
  expect(await run('install')).toMatch(/^mlx-lm 0\.32\.2 is installed/)
  await expect(run('update')).rejects.toThrow(
    `${root}/bin/brew failed (exit code 3): brew upgrade mlx-lm Error: the network is down`,
  )
  await expect(run('rollback')).rejects.toThrow('Homebrew keeps no earlier version')
  expect(await run('remove')).toBe('mlx-lm is removed.')
  await expect(run('remove')).rejects.toThrow('mlx-lm is not installed here.')
})

test.each([
  ['tensorfold', 'install', undefined, /^It cannot be installed from here\. tensorfold is not on PATH/],
  [
    'ollama',
    'install',
    undefined,
    /^ollama is installed with Homebrew, which this machine does not have: install Homebrew .*, or get Ollama from https:/,
  ],
  [
    'omlx',
    'install',
    undefined,
    /^omlx is installed with Homebrew, which this machine does not have: install Homebrew .*, or get oMLX from https:/,
  ],
  ['vllm-swift', 'install', 'uv', /^uv does not have vllm-swift\.$/],
  [
    'llama-server',
    'install',
    undefined,
    /^llama-server is installed with Homebrew, which this machine does not have: install/,
  ],
  ['mlx-lm', 'install', 'uv', /^mlx-lm is installed with uv, which this machine does not have/],
  ['mlx-lm', 'rollback', undefined, /^mlx-lm is not installed here\.$/],
] as const)('%s, %s by %s is refused in a sentence', async (runtime, deed, by, sentence) => {
  await using here = await machine()
  await expect(planFor(runtime, deed, { ...here, env: { PATH: '' } }, by)).rejects.toThrow(sentence)
})

test('what others installed is left to them', async () => {
  await using here = await machine()
  await mkdir(path.join(here.dir, 'brew', 'bin'), { recursive: true })
  const program = path.join(here.dir, 'brew', 'bin', 'mlx_lm.server')
  await writeFile(program, '', { mode: 0o755 })
  await expect(planFor('mlx-lm', 'update', here)).rejects.toThrow(`${program} was installed some other way: use that.`)
  await expect(planFor('mlx-lm', 'remove', here)).rejects.toThrow('was installed some other way')
})
