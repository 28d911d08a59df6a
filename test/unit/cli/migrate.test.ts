import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { build } from 'plist'
import { expect, test } from 'vitest'
import { migrateHere, type MigrateRequest } from '../../../src/cli/migrate.ts'
import type { InstallationHost } from '../../../src/installation/installation-host.ts'
import { LaunchctlJob } from '../../../src/installation/service/launchd.ts'
import {
  migrate,
  planMigration,
  undoMigration,
  type MigrationWorld,
} from '../../../src/installation/migration/migrate.ts'
import { KubeSim } from '../../support/kube-sim/kube-sim.ts'
import { launchctlStandIn } from '../../support/launchctl-stand-in.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { recordedIo } from '../../support/run-verb.ts'

const plan: MigrateRequest = { undo: false, dryRun: true, isConfirmed: false, plist: undefined, flags: [] }

/** No Go agent runs, whatever other tests start on this machine. */
const platform: MigrationWorld['platform'] = {
  processes: () => Promise.resolve([]),
  interfaces: () => [],
}

/** A Mac whose launchctl has nothing loaded, and answers `bootout` with this code. */
async function mac({ bootout = 0 } = {}) {
  const folder = await temporaryFolder()
  const { dir } = folder
  const bin = join(dir, 'bin')
  await mkdir(bin)
  await mkdir(join(dir, 'Library/LaunchAgents'), { recursive: true })
  await writeFile(join(bin, 'launchctl'), `#!/bin/sh\n[ "$1" = bootout ] && exit ${bootout}\nexit 113\n`)
  await chmod(join(bin, 'launchctl'), 0o755)
  const host: InstallationHost = {
    platform: 'darwin',
    env: { HOME: dir },
    user: { name: 'me', id: 501, groupId: 20, homeDir: dir },
    isRoot: false,
    systemRoot: join(dir, 'root'),
    programFolders: [bin, '/usr/bin', '/bin'],
  }
  const run = async (changes: Partial<MigrateRequest>, asked: Partial<InstallationHost> = {}, machine = platform) => {
    const { io, printed } = recordedIo(dir, { env: { HOME: dir }, platform: 'darwin' })
    return {
      code: await migrateHere({ ...plan, ...changes }, io, { host: { ...host, ...asked }, platform: machine }),
      ...printed,
    }
  }
  return { dir, run, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

test('without a Go agent that is said, and nothing is changed', async () => {
  await using machine = await mac()
  const { code, stdout, stderr } = await machine.run({ dryRun: false, isConfirmed: true })
  expect([code, stderr]).toEqual([4, 'metal-agent: Nothing was changed: see what is in the way.\n'])
  expect(stdout).toMatch(/In the way:\n {2}There is no Go agent here: /)
})

test('a Go agent that was started by hand is named with the command that ends it', async () => {
  await using machine = await mac()
  const commandLine = '/usr/local/bin/llmkube-metal-agent --namespace models'
  const running = { pid: 4711, commandLine, groupId: 4711, parentPid: 1, startTime: '1', suspended: false }
  const there = { ...platform, processes: () => Promise.resolve([running]) }
  const { code, stdout } = await machine.run({}, {}, there)
  expect([code, stdout]).toEqual([4, expect.stringContaining(`(${commandLine}): end it with "kill 4711"`)])
})

test('the settings are printed with what is left out and why, and nothing is asked of launchd', async () => {
  await using machine = await mac()
  const store = join(machine.dir, 'models')
  await mkdir(store)
  const words = ['/usr/local/bin/llmkube-metal-agent', '--namespace', 'models', '--max-watch-failures=5']
  const job = {
    Label: 'com.llmkube.metal-agent',
    ProgramArguments: [...words, '--model-store', store],
    EnvironmentVariables: { KUBECONFIG: '/Users/me/kube', GGML_METAL: '1' },
  }
  const file = join(machine.dir, 'Library/LaunchAgents/com.llmkube.metal-agent.plist')
  await writeFile(file, build(job))
  const { code, stdout } = await machine.run({ flags: ['--listen=gateway'] })
  expect([code, stdout.replaceAll(machine.dir, 'HOME').split('\n')]).toEqual([
    0,
    [
      'Settings:',
      '  --namespace=models',
      '  --kubeconfig=/Users/me/kube',
      '  --listen=gateway',
      '',
      'Left out:',
      '  --max-watch-failures is left out: a cluster that does not answer never ends this agent.',
      '  The model store HOME/models is left out: a reboot empties that folder. Models are downloaded again.',
      "  GGML_METAL of com.llmkube.metal-agent is left out: servers here do not get the agent's variables.",
      '',
      'Steps:',
      '  com.llmkube.metal-agent is unloaded, which ends the Go agent and its models.',
      '  HOME/Library/LaunchAgents/com.llmkube.metal-agent.plist is kept as com.llmkube.metal-agent.plist.before-metalbar.',
      '  This agent is installed as a LaunchAgent and starts the models: each is away while it loads.',
      '',
    ],
  ])
  expect(await readdir(join(machine.dir, 'Library/LaunchAgents'))).toEqual(['com.llmkube.metal-agent.plist'])
})

test('a Go agent that launchd does not unload keeps its plist', async () => {
  await using machine = await mac({ bootout: 5 })
  const file = join(machine.dir, 'Library/LaunchAgents/com.llmkube.metal-agent.plist')
  await writeFile(file, build({ Label: 'com.llmkube.metal-agent', ProgramArguments: ['/x/llmkube-metal-agent'] }))
  const { code, stderr } = await machine.run({ dryRun: false, isConfirmed: true })
  expect([code, stderr]).toEqual([1, expect.stringContaining('launchctl bootout') as string])
  expect(await readdir(join(machine.dir, 'Library/LaunchAgents'))).toEqual(['com.llmkube.metal-agent.plist'])
})

test('a plist edited by hand is told with the flag that is wrong', async () => {
  await using machine = await mac()
  const file = join(machine.dir, 'Library/LaunchAgents/com.llmkube.metal-agent.plist')
  const words = ['/usr/local/bin/llmkube-metal-agent', '--memory-fracton', '0.5']
  await writeFile(file, build({ Label: 'com.llmkube.metal-agent', ProgramArguments: words }))
  const { stdout } = await machine.run({})
  expect(stdout).toContain(
    `${file} has a flag that the Go agent does not know. There is no flag --memory-fracton: did you mean --memory-fraction?`,
  )
})

test('a LaunchDaemon is not begun with, and the commands that move it by hand are said', async () => {
  await using machine = await mac()
  const folder = join(machine.dir, 'root/Library/LaunchDaemons')
  await mkdir(folder, { recursive: true })
  const words = ['/usr/local/bin/llmkube-metal-agent', '--namespace', 'models']
  const file = join(folder, 'com.llmkube.metal-agent.plist')
  await writeFile(file, build({ Label: 'com.llmkube.metal-agent', ProgramArguments: words }))
  const { code, stdout } = await machine.run({ dryRun: false, isConfirmed: true })
  expect([code, stdout]).toEqual([
    4,
    expect.stringContaining(
      `by hand: sudo launchctl bootout system/com.llmkube.metal-agent; sudo mv ${file} ${file}.before-metalbar; sudo metal-agent install --daemon --`,
    ),
  ])
})

test('flags that this agent does not take are refused before anything is begun', async () => {
  await using machine = await mac()
  const file = join(machine.dir, 'Library/LaunchAgents/com.llmkube.metal-agent.plist')
  await writeFile(file, build({ Label: 'com.llmkube.metal-agent', ProgramArguments: ['/x/llmkube-metal-agent'] }))
  expect((await machine.run({ flags: ['--no-such-flag'] })).stdout).toContain('There is no flag --no-such-flag')
})

/** A Mac on which launchd runs a Go agent that has published a service, as have our agent and a Go agent of another Mac. */
async function withGoAgent(install: (flags: readonly string[]) => Promise<void> = () => Promise.resolve()) {
  await using stack = new AsyncDisposableStack()
  const sim = stack.use(await KubeSim.start())
  const launchctl = stack.use(await launchctlStandIn())
  const { dir } = stack.use(await temporaryFolder())
  const slice = (name: string, address: string, annotations = {}) =>
    sim.create({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name, annotations, labels: { 'llmkube.ai/managed-by': 'metal-agent' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: [address] }],
      ports: [{ name: 'http', port: 40_000, protocol: 'TCP' }],
    })
  slice('of-this-mac', '192.0.2.10')
  slice('of-another-mac', '192.0.2.11')
  slice('claimed', '192.0.2.10', { 'metalbar.dev/claim': '{}' })
  const agents = join(dir, 'Library/LaunchAgents')
  const plist = join(agents, 'com.llmkube.metal-agent.plist')
  const kubeconfig = join(dir, 'kubeconfig')
  await mkdir(agents, { recursive: true })
  await writeFile(kubeconfig, sim.kubeconfig())
  const words = ['/usr/local/bin/llmkube-metal-agent', '--host-ip=192.0.2.10', `--kubeconfig=${kubeconfig}`]
  await writeFile(plist, build({ Label: 'com.llmkube.metal-agent', ProgramArguments: words }))
  const host: InstallationHost = {
    ...{ platform: 'darwin', env: {}, isRoot: false, systemRoot: join(dir, 'root') },
    user: { name: 'me', id: 501, groupId: 20, homeDir: dir },
    programFolders: [launchctl.folder, '/usr/bin', '/bin'],
  }
  const done: string[] = []
  const world: MigrationWorld = {
    ...{ host, platform, checkFlags: () => undefined, tell: () => undefined },
    service: {
      install: async (flags) => {
        const slices = sim.list('endpointslices').map(({ metadata }) => metadata.name)
        done.push(`install ${flags.join(' ')}, published: ${slices.join(' ')}`)
        await install(flags)
      },
      uninstall: () => Promise.resolve(void done.push('uninstall')),
    },
  }
  await new LaunchctlJob(host, 'gui/501', 'com.llmkube.metal-agent').load(plist)
  const move = async () => {
    const found = await planMigration(world, { plist: undefined, ownFlags: [] })
    if (!found.job) throw new Error(found.problems.join(' '))
    await migrate(world, found, found.job)
  }
  const owned = stack.move()
  return { world, launchctl, agents, plist, kubeconfig, done, move, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

test('the Go agent ends, what it published goes, and our service comes with its flags; --undo swaps back', async () => {
  await using mac = await withGoAgent()
  const before = await readFile(mac.plist, 'utf8')
  await mac.move()
  expect(mac.done).toEqual([
    `install --host-ip=192.0.2.10 --kubeconfig=${mac.kubeconfig}, published: claimed of-another-mac`,
  ])
  expect([await mac.launchctl.pid(), await readdir(mac.agents)]).toEqual([
    undefined,
    ['com.llmkube.metal-agent.plist.before-metalbar'],
  ])
  await undoMigration(mac.world)
  expect([mac.done.at(-1), await readFile(mac.plist, 'utf8'), typeof (await mac.launchctl.pid())]).toEqual([
    'uninstall',
    before,
    'number',
  ])
  await expect(undoMigration(mac.world)).rejects.toThrow('There is nothing to undo')
})

test('where our service cannot be installed the Go agent runs again', async () => {
  await using mac = await withGoAgent(() => Promise.reject(new Error('no room')))
  await expect(mac.move()).rejects.toThrow('no room')
  expect([await readdir(mac.agents), typeof (await mac.launchctl.pid())]).toEqual([
    ['com.llmkube.metal-agent.plist'],
    'number',
  ])
})
