import { chmod, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { installCommand } from '../../../src/agent-core/runtimes/install-command.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runVerb } from '../../support/run-verb.ts'

afterEach(() => void vi.unstubAllEnvs())

async function writeProgram(file: string, script: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(file, `#!/bin/sh\n${script}\n`)
  await chmod(file, 0o755)
}

async function machine(...tools: readonly string[]) {
  const folder = await temporaryFolder()
  vi.stubEnv('HOME', folder.dir)
  const bin = path.join(folder.dir, 'bin')
  for (const tool of tools) await writeProgram(path.join(bin, tool), 'exit 0')
  const line = (runtime: string, system: 'darwin' | 'linux' = 'linux') =>
    installCommand(runtime, { system, path: bin, homebrewFolders: system === 'darwin' ? [bin] : [] })
  return { folder, bin, line, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

test('Homebrew installs what it has, from its tap and set up where that takes it', async () => {
  await using at = await machine('brew', 'uv', 'python3')
  expect([
    await at.line('llama-server'),
    await at.line('omlx', 'darwin'),
    await at.line('vllm-swift', 'darwin'),
    await at.line('mlx-server'),
  ]).toEqual([
    'brew install llama.cpp',
    'brew tap jundot/omlx https://github.com/jundot/omlx && brew install jundot/omlx/omlx',
    'brew install TheTom/tap/vllm-swift && vllm-swift setup',
    undefined,
  ])
})

test('without it uv installs what the Python package index has, or else pip, with what Linux needs beside it', async () => {
  await using withUv = await machine('uv', 'python3')
  expect([await withUv.line('mlx-lm'), await withUv.line('mlx-lm', 'darwin'), await withUv.line('ollama')]).toEqual([
    "uv tool install 'mlx-lm>=0.32.2' --with 'mlx[cpu]'",
    "uv tool install 'mlx-lm>=0.32.2'",
    undefined,
  ])
  await using withPip = await machine('python3')
  expect(await withPip.line('mlx-lm')).toBe("python3 -m pip install --user 'mlx-lm>=0.32.2' 'mlx[cpu]'")
  await using bare = await machine()
  expect(await bare.line('mlx-lm')).toBeUndefined()
})

async function install(at: Awaited<ReturnType<typeof machine>>, words: readonly string[], answer?: string) {
  const { dir } = at.folder
  return await runVerb(['runtimes', 'install', ...words], dir, {
    ...(answer !== undefined && { ask: () => Promise.resolve(answer) }),
    env: { PATH: at.bin, HOME: dir },
    platform: 'linux',
  })
}

test('the command is shown, run only after a yes, and what it installed is found in the folder of this user', async () => {
  await using at = await machine()
  const program = path.join(at.folder.dir, '.local/bin/mlx_lm.server')
  await writeProgram(
    path.join(at.bin, 'uv'),
    `/bin/mkdir -p "$HOME/.local/bin"; echo '#!/bin/sh' > "$HOME/.local/bin/mlx_lm.server"; /bin/chmod +x "$HOME/.local/bin/mlx_lm.server"`,
  )
  const shown = "This command will run:\n  uv tool install 'mlx-lm>=0.32.2' --with 'mlx[cpu]'\n"
  expect([await install(at, ['mlx-lm'], 'n'), await install(at, ['mlx-lm'])]).toMatchObject([
    { code: 4, stdout: shown },
    { code: 4, stdout: shown, stderr: expect.stringContaining('run it again with --yes') as string },
  ])
  const done = await install(at, ['mlx-lm'], 'y')
  expect(done).toMatchObject({ code: 0, stdout: expect.stringContaining(path.dirname(program)) as string })
  expect(await install(at, ['mlx-lm'])).toMatchObject({ code: 0, stdout: `mlx-lm is already here: ${program}.\n` })
})

test('a command that fails is told, and so is what nothing here can install', async () => {
  await using at = await machine()
  await writeProgram(path.join(at.bin, 'brew'), 'exit 3')
  expect(await install(at, ['llama-server', '--yes'])).toMatchObject({
    code: 1,
    stderr: 'metal-agent: The command failed: see what it printed above.\n',
  })
  expect(await install(at, ['tensorfold', '--yes'])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^metal-agent: Nothing on this machine can install tensorfold\. /) as string,
  })
})
