import { chmod, copyFile, mkdir, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { execa } from 'execa'
import { afterEach, expect, test } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runVerb } from '../../support/run-verb.ts'

const running: AsyncDisposable[] = []
afterEach(async () => {
  for (const server of running.splice(0)) await server[Symbol.asyncDispose]()
})

const root = path.resolve(import.meta.dirname, '../../..')

/** The command in this process, with nothing of our environment but what is given. */
async function metalAgentWith(env: NodeJS.ProcessEnv, ...args: string[]) {
  const { code, stdout, stderr } = await runVerb(args, '/nowhere', { env, cwd: '/' })
  return { exitCode: code, stdout: stdout.replace(/\n$/, ''), stderr: stderr.replace(/\n$/, '') }
}

const metalAgent = (...args: string[]) => metalAgentWith({ PATH: '/nowhere', LANG: 'C.UTF-8' }, ...args)

test('status of an agent that speaks another protocol exits with 1 and names both', async () => {
  await using folder = await temporaryFolder()
  running.push(
    createServer((socket) => {
      socket.end('{"type":"hello","protocol":99,"version":"9.0.0","more":true}\n')
    }).listen(path.join(folder.dir, 'agent.sock')),
  )
  expect(await metalAgent('status', '--state-dir', folder.dir)).toEqual({
    exitCode: 1,
    stdout: '',
    stderr:
      'metal-agent: The running agent (version 9.0.0) speaks protocol 99, but this command speaks 1: use the metal-agent of the same version.',
  })
})

test.each([
  {
    args: ['ui', '--port', '1x'],
    says: 'metal-agent: --port must be a port number from 0 to 65535, not "1x".',
  },
  { args: ['--prot', '1'], says: 'metal-agent: There is no flag --prot: did you mean --port?' },
  { args: ['--port', 'x'], says: 'metal-agent: --port wants a whole number, not "x".' },
  { args: ['statsu'], says: "metal-agent: unknown command 'statsu' (Did you mean status?)" },
  { args: ['status', '--jsn'], says: "metal-agent: unknown option '--jsn' (Did you mean --json?)" },
  { args: ['pause', 'all'], says: "metal-agent: too many arguments for 'pause'. Expected 0 arguments but got 1." },
])('$args exits with 2 and one sentence', async ({ args, says }) => {
  expect(await metalAgent(...args)).toEqual({ exitCode: 2, stdout: '', stderr: says })
})

test.each([{ args: ['--version'] }, { args: ['-version'] }])(
  '$args prints version, commit and date on three lines',
  async ({ args }) => {
    expect(await metalAgent(...args)).toEqual({
      exitCode: 0,
      stderr: '',
      stdout: 'metal-agent dev\n  git commit: unknown\n  build date: unknown',
    })
  },
)

test('rights and add --yaml print without an agent: for what they are told, or for the current context', async () => {
  await using folder = await temporaryFolder()
  const nobody = ['--state-dir', folder.dir]
  const kubeconfig = path.join(folder.dir, 'config')
  const lab = { name: 'lab', context: { cluster: 'lab', user: 'lab' } }
  const parts = {
    clusters: [{ name: 'lab', cluster: { server: 'https://lab.example:6443' } }],
    users: [],
    contexts: [lab],
  }
  await writeFile(kubeconfig, JSON.stringify({ apiVersion: 'v1', kind: 'Config', 'current-context': 'lab', ...parts }))
  const told = await metalAgent('rights', ...nobody, '--context', 'the rack', '--namespace', 'team-a')
  const current = await metalAgentWith({ KUBECONFIG: kubeconfig }, 'rights', ...nobody)
  const neither = await metalAgentWith({ KUBECONFIG: path.join(folder.dir, 'none') }, 'rights', ...nobody)
  const added = await metalAgent('add', 'llama-3.1-8b', '--yaml', ...nobody)
  expect([told.exitCode, told.stdout]).toEqual([
    0,
    expect.stringMatching(/--context 'the rack' [^]*--namespace team-a rolebinding/),
  ])
  expect(current.stdout).toMatch(/kubectl --context lab auth whoami[^]*--namespace default rolebinding/)
  expect([neither.exitCode, neither.stderr]).toEqual([
    2,
    expect.stringContaining(`There is no kubeconfig at ${folder.dir}/none`),
  ])
  expect([added.exitCode, added.stderr, added.stdout]).toEqual([0, '', expect.stringContaining('namespace: default')])
})

test.skipIf(process.getuid?.() !== 0)('the rule of sudo is for who called sudo, and never for root', async () => {
  const dryRun = (SUDO_USER: string) => metalAgentWith({ SUDO_USER }, 'power', 'install', '--dry-run')
  expect((await dryRun('nobody')).stdout).toMatch(/^nobody ALL/m)
  for (const name of ['', 'root', 'no such user']) expect((await dryRun(name)).exitCode).toBe(2)
})

test.each([{ args: ['--help'] }, { args: ['-h'] }, { args: ['help'] }])(
  '$args shows on one screen what each verb does, and where the flags are',
  async ({ args }) => {
    const { exitCode, stdout, stderr } = await metalAgent(...args)
    const lines = stdout.split('\n')
    expect({
      exitCode,
      stderr,
      first: lines[0],
      fits: lines.length <= 45 && lines.every(({ length }) => length <= 110),
    }).toEqual({
      exitCode: 0,
      stderr: '',
      first: 'metal-agent serves the InferenceServices of a Kubernetes cluster natively on this host.',
      fits: true,
    })
    expect(stdout).toContain('metal-agent help flags')
    expect(stdout).toContain('\n  status [service] ')
  },
)

/** The launcher in a folder of its own, with a bundle that tells how it was started. */
async function installLauncher(dir: string, { bundle = true } = {}): Promise<string> {
  const launcher = path.join(dir, 'bin/metal-agent')
  await mkdir(path.dirname(launcher), { recursive: true })
  await copyFile(path.join(root, 'bin/metal-agent'), launcher)
  if (bundle) {
    await mkdir(path.join(dir, 'out/cli'), { recursive: true })
    await writeFile(
      path.join(dir, 'out/cli/metal-agent.js'),
      'console.log(JSON.stringify([process.execArgv, process.argv.slice(2)])); process.exit(7)',
    )
  }
  return launcher
}

async function fakeNode(dir: string, version: string): Promise<void> {
  await mkdir(dir, { recursive: true })
  const script = `#!/bin/sh\ncase $1 in --version) echo v${version};; *) echo "node ${version}: $*";; esac\n`
  await writeFile(path.join(dir, 'node'), script)
  await chmod(path.join(dir, 'node'), 0o755)
}

async function launch(launcher: string, args: string[], PATH: string) {
  const { exitCode, stdout, stderr } = await execa(launcher, args, {
    reject: false,
    extendEnv: false,
    env: { PATH: `${PATH}:/usr/bin:/bin` },
  })
  return { exitCode, stdout, stderr }
}

test('the launcher hands on its arguments and exit code, also through a symbolic link', async () => {
  await using folder = await temporaryFolder()
  const launcher = await installLauncher(path.join(folder.dir, 'app with space'))
  const linked = path.join(folder.dir, 'linked')
  await symlink(path.relative(folder.dir, launcher), linked)
  expect(await launch(linked, ['--a', 'b c', ''], path.dirname(process.execPath))).toEqual({
    exitCode: 7,
    stdout: JSON.stringify([
      ['--max-semi-space-size=1', '--optimize-for-size', '--liftoff-only', '--no-opt', '--no-maglev', '--no-sparkplug'],
      ['--a', 'b c', ''],
    ]),
    stderr: '',
  })
})

test("the launcher prefers the project's own Node.js and passes over one that is too old", async () => {
  await using folder = await temporaryFolder()
  const launcher = await installLauncher(folder.dir)
  const onPath = path.join(folder.dir, 'path')
  await fakeNode(onPath, '24.0.0')
  await fakeNode(path.join(folder.dir, 'node_modules/.bin'), '22.9.0')
  const older = await launch(launcher, [], onPath)
  await fakeNode(path.join(folder.dir, 'node_modules/.bin'), '24.21.0')
  const newer = await launch(launcher, [], onPath)
  expect([older.stdout.slice(0, 12), newer.stdout.slice(0, 13)]).toEqual(['node 24.0.0:', 'node 24.21.0:'])
})

test('the launcher says what is missing: the bundle, or a Node.js that is new enough', async () => {
  await using folder = await temporaryFolder()
  const launcher = await installLauncher(folder.dir, { bundle: false })
  await fakeNode(path.join(folder.dir, 'path'), '20.18.0')
  const withoutBundle = await launch(launcher, [], path.join(folder.dir, 'path'))
  await installLauncher(folder.dir)
  const withoutNode = await launch(launcher, [], path.join(folder.dir, 'path'))
  expect([withoutBundle, withoutNode]).toEqual([
    {
      exitCode: 1,
      stdout: '',
      stderr: `metal-agent: ${folder.dir}/out/cli/metal-agent.js is missing: run make build in a clone, or install the package anew.`,
    },
    {
      exitCode: 1,
      stdout: '',
      stderr:
        'metal-agent: Node.js 24 or newer is needed and PATH has v20.18.0: install it from https://nodejs.org or your package manager.',
    },
  ])
})
