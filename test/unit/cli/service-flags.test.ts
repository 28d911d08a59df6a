import { access, chmod, mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { build } from 'plist'
import { expect, test } from 'vitest'
import { status } from '../../../src/cli/service/service.ts'
import type { InstallationHost } from '../../../src/installation/installation-host.ts'
import { serviceFlags } from '../../../src/cli/service/service-plan.ts'
import { userOfLine } from '../../../src/cli/service/service-host.ts'
import { launchdPlist, readLaunchdPlist } from '../../../src/installation/service/launchd.ts'
import { serviceEnvironment } from '../../../src/installation/service/service-plan.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'
import { recordedIo, runVerb } from '../../support/run-verb.ts'
import { examplePlan } from '../installation/service/example-plans.ts'

const defaults = { modelStore: '/Users/you/models', stateDir: '/Users/you/state' }
const where = { homeDir: '/Users/you', defaults, cwd: '/elsewhere' } as const
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

async function metalAgent(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  homeDir = '/Users/you',
  platform: NodeJS.Platform = 'darwin',
) {
  return await runVerb(args, homeDir, { env, platform, temporaryDir: '/tmp', cwd: '/elsewhere' })
}

const ioAt = (env: NodeJS.ProcessEnv, homeDir: string, platform: NodeJS.Platform) =>
  recordedIo(homeDir, { env, platform, temporaryDir: '/tmp', cwd: '/elsewhere' }).io

test('install --dry-run prints the plist and changes nothing', async () => {
  const { code, stdout, stderr } = await metalAgent([
    'install',
    '--dry-run',
    '--env',
    'A=<&>',
    '--',
    '--namespace',
    'x',
  ])
  const { label, words, environment } = readLaunchdPlist(stdout)
  expect([code, label, words.at(-1), environment['A']]).toEqual([
    ...[0, 'dev.metalbar.llmkube-metal-agent', '--namespace=x', '<&>'],
  ])
  expect(stderr).toMatch(
    /LaunchAgents\/dev\.metalbar\.llmkube-metal-agent\.plist would be written; nothing was changed\./,
  )
})

test.for([['install'], ['service', 'status']])(
  'on Linux %s says in one sentence that it needs launchd',
  async (args) => {
    expect(await metalAgent(args, {}, '/home/you', 'linux')).toEqual({
      code: 2,
      stdout: '',
      stderr:
        'metal-agent: A service needs launchd, which only macOS has: on Linux run metal-agent in the foreground, or under a service manager of your own.\n',
    })
  },
)

test.for([
  [['install', '--env', 'A'], 2, /--env wants NAME=VALUE, not "A"/],
  [['install', '--dry-run', '--', '--tmp=1'], 2, /There is no flag --tmp/],
  [['service', 'logs', '--lines', '0'], 2, /--lines must be a whole number from 1 to 100000, not "0"\./],
  [['install', '--user', ''], 2, /^metal-agent: --user wants a value that is not empty\.\n$/],
  [['rights', '--context', ''], 2, /^metal-agent: --context wants a value/],
  [['migrate', '--plist', ''], 2, /^metal-agent: --plist wants a value/],
  [['logs', 'chat', '--lines', 'many'], 2, /^metal-agent: --lines must be a whole number/],
  [['history', '--limit', '0'], 2, /^metal-agent: --limit must be a whole number/],
  [['add', 'hf://owner/name', '--context', 'abc', '--yaml'], 2, /^metal-agent: --context must be a whole number/],
  [['service', 'status'], 3, /^$/],
  [['service', 'restart'], 1, /No service is installed: metal-agent install installs one\./],
] as const)('%s ends with its code and one sentence', async ([args, code, said]) => {
  expect(await metalAgent(args, {}, '/nowhere')).toMatchObject({ code, stderr: expect.stringMatching(said) as string })
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
  expect((await metalAgent(['install', '--dry-run'], {}, folder.dir)).stderr).toMatch(
    /Go agent is installed too \(com\.llmkube\.metal-agent, .*\.plist\); its services are left alone: metal-agent migrate/,
  )
})

test('root runs no command that lies where another user can replace it', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  await there.programs({ launchctl: 'exit 113' })
  const ran = there.at('ran')
  const program = await there.write(there.at('bin/metal-agent'), `#!/bin/sh\n: > '${ran}'\n`)
  await chmod(program, 0o755)
  const plan = examplePlan('launchAgent', { program: [program] })
  const file = path.join(there.home, 'Library/LaunchAgents/dev.metalbar.llmkube-metal-agent.plist')
  await there.write(file, launchdPlist(plan))
  const statusFor = async (change: Partial<InstallationHost>) => {
    let said = ''
    const io = { ...ioAt({}, there.home, 'darwin'), stdout: { write: (text: string) => (said += text) } }
    await status(io, false, { ...there.host, ...change })
    const isRun = await access(ran).then(
      () => true,
      () => false,
    )
    return [isRun, /its version/.test(said), /is installed/.test(said)]
  }
  const nobody = { name: 'nobody', id: 65_534, groupId: 65_534, homeDir: there.home }
  expect(await statusFor({ isRoot: true, user: nobody })).toEqual([false, false, true])
  expect((await statusFor({}))[0]).toBe(true)
})

test('a user is read from what id -P of macOS prints', () => {
  expect([
    userOfLine('serve', 'serve:********:502:20::0:0:Model Server:/Users/serve:/bin/zsh\n'),
    userOfLine('_www', '_www:*:70:70::0:0:World Wide Web Server:/Library/WebServer:/usr/bin/false\n'),
  ]).toEqual([
    { name: 'serve', id: 502, groupId: 20, homeDir: '/Users/serve' },
    { name: '_www', id: 70, groupId: 70, homeDir: '/Library/WebServer' },
  ])
  // An empty number would be root's.
  const broken = ['', 'id: serve: no such user\n', 'serve:x:::Model Server:/home/serve:/bin/bash', 'serve:x:5:5:::']
  expect(broken.map((line) => userOfLine('serve', line))).toEqual(broken.map(() => undefined))
})
