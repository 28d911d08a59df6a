import { access, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { build } from 'plist'
import { expect, test } from 'vitest'
import { main } from '../../../src/cli/main.ts'
import { notesOfGoAgent } from '../../../src/cli/service/install.ts'
import { serviceFlags } from '../../../src/cli/service/service-plan.ts'
import { userOfLine } from '../../../src/cli/service/service-host.ts'
import { readLaunchdPlist } from '../../../src/installation/service/launchd.ts'
import { isUntouched, serviceEnvironment } from '../../../src/installation/service/service-plan.ts'
import { systemdUnitText } from '../../../src/installation/service/systemd.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'
import { examplePlan } from '../installation/service/example-plans.ts'

const defaults = { modelStore: '/Users/you/models', stateDir: '/Users/you/state' }
const where = { kind: 'launchAgent', homeDir: '/Users/you', defaults, cwd: '/elsewhere' } as const
const flagsOf = (...args: string[]) => Object.fromEntries(serviceFlags(args, where).flags)

test('a service states its folders and its log, and every path in full', () => {
  const own = {
    'state-dir': '/Users/you/state',
    'model-store': '/Users/you/models',
    'log-file': '/Users/you/Library/Logs/Metalbar/metal-agent.log',
  }
  expect([
    flagsOf(),
    flagsOf('-kubeconfig', 'k', '--llama-server=bin/llama', '--eviction-enabled', '--drain-timeout', '1m30s'),
    flagsOf('--llama-server', 'llama-server', '--kube-context', 'a', '--context=b', '--model-store', 'm'),
  ]).toEqual([
    own,
    {
      ...own,
      kubeconfig: '/elsewhere/k',
      'llama-server': '/elsewhere/bin/llama',
      'eviction-enabled': 'true',
      'drain-timeout': '1m30s',
    },
    { ...own, 'model-store': '/elsewhere/m', 'llama-server': 'llama-server', context: 'b' },
  ])
})

test.for([
  [['--hots-ip', '1.2.3.4'], /no flag --hots-ip: did you mean --host-ip\?/],
  [['--host-ip', 'mars'], /--host-ip must be an IPv4 or IPv6 address/],
  [['--version'], /--version starts no agent/],
  [['status'], /"status" is not a flag/],
] as const)('%s is refused by the parser of the agent', ([args, why]) => {
  expect(() => serviceFlags(args, where)).toThrow(why)
})

async function metalAgent(args: readonly string[], env: NodeJS.ProcessEnv = {}, homeDir = '/Users/you') {
  const said = { stdout: '', stderr: '' }
  const code = await main(args, {
    stdout: { write: (text: string) => (said.stdout += text) },
    stderr: { write: (text: string) => (said.stderr += text) },
    ...{ env, homeDir, platform: 'linux', temporaryDir: '/tmp', cwd: '/elsewhere', windowFolder: '/none' },
  })
  return { code, ...said }
}

test('install --dry-run prints the file of a Mac on any system, whole and untouched', async () => {
  const { code, stdout, stderr } = await metalAgent([
    'install',
    '--dry-run',
    '--platform',
    'darwin',
    '--env',
    'A=<&>',
    '--',
    '--namespace',
    'x',
  ])
  const { label, words, environment } = readLaunchdPlist(stdout)
  expect([code, isUntouched(stdout), label, words.at(-1), environment['A']]).toEqual([
    ...[0, true, 'dev.metalbar.llmkube-metal-agent', '--namespace=x', '<&>'],
  ])
  expect(stderr).toMatch(
    /LaunchAgents\/dev\.metalbar\.llmkube-metal-agent\.plist would be written; nothing was changed\./,
  )
})

test.for([
  [['install', '--platform', 'darwin'], 2, /--platform is for --dry-run/],
  [['install', '--daemon'], 2, /--daemon is for macOS.*enable-linger/],
  [['install', '--env', 'A'], 2, /--env wants NAME=VALUE, not "A"/],
  [['install', '--dry-run', '--platform', 'darwin', '--', '--tmp=1'], 2, /There is no flag --tmp/],
  [['service', 'logs', '--lines', '0'], 2, /--lines wants a whole number/],
  [['service', 'status'], 3, /^$/],
  [['service', 'restart'], 1, /No service is installed: metal-agent install installs one\./],
  [['service', 'set', 'port', '1'], 1, /No service is installed/],
] as const)('%s ends with its code and one sentence', async ([args, code, said]) => {
  expect(await metalAgent(args, {}, '/nowhere')).toMatchObject({ code, stderr: expect.stringMatching(said) as string })
})

test('without HOME nobody knows whose service it is', async () => {
  expect(await metalAgent(['install', '--dry-run'], {}, '')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/HOME names no folder/) as string,
  })
})

test('a service gets what decides about its cluster and proxies, and no secret', () => {
  const env = {
    KUBECONFIG: '/k',
    HTTPS_PROXY: 'http://you:secret@proxy:3128',
    NO_PROXY: 'lan',
    HF_TOKEN: 'hf_x',
    EDITOR: 'vi',
    HF_HOME: '',
  }
  const user = { name: 'you', id: 501, groupId: 20, homeDir: '/Users/you' }
  const { variables, leftOut } = serviceEnvironment('launchDaemon', { env, user })
  expect(variables).toEqual({
    ...{ HOME: '/Users/you', USER: 'you', LOGNAME: 'you', KUBECONFIG: '/k', NO_PROXY: 'lan', METAL_AGENT_SERVICE: '1' },
    PATH: '/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin',
  })
  expect(leftOut).toEqual([
    expect.stringMatching(/^HTTPS_PROXY has a password/),
    expect.stringMatching(/^HF_TOKEN is a secret/),
  ])
  const stated = { HTTPS_PROXY: 'http://you:secret@proxy:3128' }
  expect(serviceEnvironment('launchAgent', { env, user }, stated)).toMatchObject({
    variables: stated,
    leftOut: { length: 1 },
  })
})

test('a Go agent that is installed is named by an installation, with what moves its services', async () => {
  await using folder = await temporaryFolder()
  const jobs = path.join(folder.dir, 'Library/LaunchAgents')
  await mkdir(jobs, { recursive: true })
  const job = { Label: 'com.llmkube.metal-agent', ProgramArguments: ['/usr/local/bin/llmkube-metal-agent'] }
  await writeFile(path.join(jobs, 'com.llmkube.metal-agent.plist'), build(job))
  const args = ['install', '--dry-run', '--platform']
  expect((await metalAgent([...args, 'darwin'], {}, folder.dir)).stderr).toMatch(
    /Go agent is installed too \(com\.llmkube\.metal-agent, .*\.plist\); its services are left alone: metal-agent migrate/,
  )
  expect((await metalAgent([...args, 'linux'], {}, folder.dir)).stderr).not.toContain('Go agent')
})

test('a Go agent that runs is named by an installation with its process and how it is ended, whether launchd or a person started it', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  const program = '/usr/local/bin/llmkube-metal-agent'
  const job = { Label: 'com.llmkube.metal-agent', ProgramArguments: [program] }
  const file = await there.write(
    path.join(there.home, 'Library/LaunchAgents/com.llmkube.metal-agent.plist'),
    build(job),
  )
  await there.programs({ launchctl: "printf 'x = {\\n\\tpid = 10\\n}\\n'" })
  const process = (pid: number, groupId: number, commandLine: string) => ({
    ...{ pid, groupId, commandLine, parentPid: 1, startTime: '1', suspended: false },
  })
  const server = 'llama-server --model /m.gguf --host 0.0.0.0 --port 8081 '
  const processes = [
    process(10, 10, `${program} --namespace default`),
    process(11, 10, server),
    process(20, 20, './llmkube-metal-agent --host-ip 10.0.0.1'),
    process(30, 30, 'llmkube-metal-agent status'),
    process(40, 40, 'llmkube-metal-agent --port 0'),
  ]
  const platform = { processes: () => Promise.resolve(processes) }
  expect(await notesOfGoAgent(there.host, { platform, ownPid: 40 })).toEqual([
    `LLMKube's Go agent is installed too (com.llmkube.metal-agent, ${file}), and runs as process 10 with 1 server; its services are left alone: metal-agent migrate moves them to this agent, with one restart of each model.`,
    `LLMKube's Go agent runs too, as process 20 with 0 servers, which no plist started (./llmkube-metal-agent --host-ip 10.0.0.1); its services are left alone: metal-agent migrate moves them to this agent, with one restart of each model, and ends it. "kill 20" ends it together with its models.`,
  ])
})

test('root runs no command that lies where another user can replace it', async (context) => {
  if (process.getuid?.() !== 0) context.skip('only root acts for another user')
  await using folder = await temporaryFolder()
  const [bin, ran] = [path.join(folder.dir, 'bin'), path.join(folder.dir, 'ran')]
  const units = path.join(folder.dir, 'systemd/user')
  for (const one of [bin, units]) await mkdir(one, { recursive: true })
  const script = (name: string, text: string) =>
    writeFile(path.join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  await script('systemctl', "printf 'LoadState=loaded\\nUnitFileState=enabled\\nMainPID=0\\n'")
  await script('metal-agent', `: > '${ran}'`)
  const plan = examplePlan('systemdUser', { program: [path.join(bin, 'metal-agent')] })
  await writeFile(path.join(units, 'llmkube-metal-agent.service'), systemdUnitText(plan))
  const env = { XDG_CONFIG_HOME: folder.dir, PATH: `${bin}:/usr/bin:/bin` }
  const isRun = () =>
    access(ran).then(
      () => true,
      () => false,
    )
  const other = await metalAgent(['service', 'status'], { ...env, SUDO_USER: 'nobody' })
  expect([await isRun(), /its version/.test(other.stdout), /is installed/.test(other.stdout)]).toEqual([
    false,
    false,
    true,
  ])
  await metalAgent(['service', 'status'], env)
  expect(await isRun()).toBe(true)
})

test('a user is read from what id -P of macOS and getent print', () => {
  expect([
    userOfLine('serve', 'serve:********:502:20::0:0:Model Server:/Users/serve:/bin/zsh\n'),
    userOfLine('_www', '_www:*:70:70::0:0:World Wide Web Server:/Library/WebServer:/usr/bin/false\n'),
    userOfLine('serve', 'serve:x:1001:1001:Model Server,,,:/home/serve:/bin/bash\n'),
  ]).toEqual([
    { name: 'serve', id: 502, groupId: 20, homeDir: '/Users/serve' },
    { name: '_www', id: 70, groupId: 70, homeDir: '/Library/WebServer' },
    { name: 'serve', id: 1001, groupId: 1001, homeDir: '/home/serve' },
  ])
  // An empty number would be root's.
  const broken = ['', 'id: serve: no such user\n', 'serve:x:::Model Server:/home/serve:/bin/bash', 'serve:x:5:5:::']
  expect(broken.map((line) => userOfLine('serve', line))).toEqual(broken.map(() => undefined))
})
