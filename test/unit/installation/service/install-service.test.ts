import { chmod, chown, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { asOwner, InstallationError, type InstallationHost } from '../../../../src/installation/installation-host.ts'
import { copiedCommand, copyCommand } from '../../../../src/installation/command-copy.ts'
import {
  installedServices,
  installService,
  restartService,
  uninstallService,
  type Agents,
} from '../../../../src/installation/service/service.ts'
import type { ServicePlan } from '../../../../src/installation/service/service-plan.ts'
import { launchctlStandIn, type LaunchctlStandIn } from '../../../support/launchctl-stand-in.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { examplePlan } from './example-plans.ts'

const label = 'dev.metalbar.llmkube-metal-agent'

test('an installation writes the file and loads it, a second one changes nothing, and other flags change it with the servers left alone', async () => {
  await using mac = await macAt()
  const first = await mac.install()
  const again = await mac.install()
  const other = await mac.install({ flags: mac.flags({ namespace: 'mars' }) })
  expect([first.file, first.started?.kind, again.file, again.started]).toEqual([
    'written',
    'answers',
    'unchanged',
    undefined,
  ])
  expect([other.file, other.servers, other.started?.kind]).toEqual(['changed', [4711], 'answers'])
  expect(mac.left).toEqual([mac.stateDir])
  expect(await mac.launchctl.calls()).toEqual([
    `enable gui/501/${label}`,
    `bootstrap gui/501 ${mac.file}`,
    `bootout gui/501/${label}`,
    `enable gui/501/${label}`,
    `bootstrap gui/501 ${mac.file}`,
  ])
})

test('an update puts the new version where launchd starts the old one: the file stays, and the servers keep running', async () => {
  await using mac = await macAt()
  const place = copiedCommand(mac.stateDir)
  await mac.installVersion('1.0.0')
  const before = [await readFile(place, 'utf8'), await readFile(mac.file, 'utf8')]
  const update = await mac.installVersion('2.0.0')
  const again = await mac.installVersion('2.0.0')
  expect([before, await readFile(place, 'utf8'), await readFile(mac.file, 'utf8')]).toEqual([
    ['version 1.0.0', before[1]],
    'version 2.0.0',
    before[1],
  ])
  expect([update, again]).toMatchObject([
    { file: 'updated', servers: [4711], started: { kind: 'answers' } },
    { file: 'unchanged' },
  ])
  expect([mac.left, again.started, (await mac.launchctl.calls()).slice(2)]).toEqual([
    [mac.stateDir],
    undefined,
    [`kickstart gui/501/${label}`],
  ])
  expect([await readdir(path.dirname(place)), (await stat(place)).mode & 0o777]).toEqual([['metal-agent'], 0o700])
})

test('nothing is left of an installation after its removal', async () => {
  await using mac = await macAt()
  const before = await mac.files()
  await mac.installVersion('1.0.0')
  const during = await mac.files()
  const [service = fail()] = await installedServices(mac.host)
  await uninstallService(service, { ...mac.work, host: mac.host, agents: undefined })
  expect([during.length > before.length, await mac.files()]).toEqual([true, before])
  expect((await mac.launchctl.calls()).at(-1)).toBe(`bootout gui/501/${label}`)
  // An agent that ends within seconds is not waited for with a sentence.
  expect(mac.told).toEqual([])
  // SIGTERM has the agent stop its servers: nobody asked it to leave them.
  expect(mac.left).toEqual([])
})

test('a restart has the agent leave its servers, and starts it by kickstart as another process', async () => {
  await using mac = await macAt()
  await mac.install()
  const [service] = await installedServices(mac.host)
  const pid = await mac.launchctl.pid()
  const outcome = await restartService(service ?? fail(), mac.work)
  expect([outcome.pidBefore, outcome.servers, outcome.started]).toMatchObject([pid, [4711], { kind: 'answers' }])
  expect(await mac.launchctl.pid()).not.toBe(pid)
  expect((await mac.launchctl.calls()).at(-1)).toBe(`kickstart gui/501/${label}`)
})

test('an agent that does not answer is killed alone, and launchd starts the next one', async () => {
  await using mac = await macAt({ answers: false })
  await mac.install()
  const [service] = await installedServices(mac.host)
  const { started } = await restartService(service ?? fail(), mac.work)
  expect([started.kind, await mac.launchctl.calls()]).toEqual([
    'silent',
    expect.arrayContaining([`kill SIGKILL gui/501/${label}`]),
  ])
})

test.for([
  ['<plist version="1.0"><dict><key>Label</key><str', /is truncated/],
  [
    '<plist version="1.0"><dict><key>Label</key><string>com.example.other</string><key>ProgramArguments</key><array><string>/bin/true</string></array></dict></plist>\n',
    /has the label com\.example\.other and not dev\.metalbar/,
  ],
] as const)('a file in its place that is none of ours is left as it is', async ([text, why]) => {
  await using mac = await macAt()
  await mkdir(path.dirname(mac.file), { recursive: true })
  await writeFile(mac.file, text)
  await expect(mac.install()).rejects.toThrow(why)
  expect([await readFile(mac.file, 'utf8'), await mac.launchctl.calls()]).toEqual([text, []])
})

test('launchd that is still ending the job of before is asked again', async () => {
  await using mac = await macAt()
  await mac.launchctl.fails('bootstrap', 5, 'Bootstrap failed: 5: Input/output error')
  const { file, started } = await mac.install()
  expect([file, started?.kind, (await mac.launchctl.calls()).filter((call) => call.startsWith('bootstrap'))]).toEqual([
    'written',
    'answers',
    [expect.any(String), expect.any(String)],
  ])
})

test('a Mac on which nobody is logged in at the screen is named with the way that is left, and no file of launchd stays behind', async () => {
  await using mac = await macAt()
  await mac.launchctl.fails('bootstrap', 125, 'Bootstrap failed: 125: Domain does not support specified action')
  await expect(mac.install()).rejects.toThrow(/ended with code 125 .*nobody is logged in.*--daemon/)
  expect((await mac.files()).filter((file) => file.endsWith('.plist'))).toEqual([])
})

test('a change that launchd refuses leaves the file of before', async () => {
  await using mac = await macAt()
  await mac.install()
  const before = await readFile(mac.file, 'utf8')
  await mac.launchctl.fails('bootstrap', 119, 'Bootstrap failed: 119: Service is disabled')
  await expect(mac.install({ flags: mac.flags({ namespace: 'mars' }) })).rejects.toThrow(/Login Items/)
  expect(await readFile(mac.file, 'utf8')).toBe(before)
})

test('a LaunchDaemon is refused to who is not root before anything is written, and a LaunchAgent to sudo', async () => {
  await using mac = await macAt()
  const before = await mac.files()
  const daemon = mac.plan({ kind: 'launchDaemon', userName: 'you' })
  await expect(installService(daemon, { host: mac.host, work: mac.work })).rejects.toThrow(
    /only root may install.*run this again with sudo in front/,
  )
  const asRoot = { ...mac.host, isRoot: true }
  await expect(installService(mac.plan(), { host: asRoot, work: mac.work })).rejects.toThrow(/without sudo.*--daemon/)
  expect([await mac.files(), await mac.launchctl.calls()]).toEqual([before, []])
})

test('a LaunchDaemon is in the domain of the system, and no second service beside it', async () => {
  await using mac = await macAt({ isRoot: true })
  const plan = mac.plan({ kind: 'launchDaemon', userName: 'you' })
  await installService(plan, { host: mac.host, work: mac.work })
  expect(await mac.launchctl.calls()).toEqual([
    `enable system/${label}`,
    `bootstrap system ${path.join(mac.root, 'Library/LaunchDaemons', `${label}.plist`)}`,
  ])
  await expect(mac.install()).rejects.toThrow(/installed as a LaunchDaemon already/)
})

test.for([
  ['launchDaemon', {}, 0o644],
  ['launchDaemon', { TOKEN: 'x' }, 0o600],
  ['launchAgent', {}, 0o600],
] as const)(
  'the file of a %s with the variables %o has the mode %o, and one that others could read is tightened',
  async ([kind, given, mode]) => {
    await using mac = await macAt({ isRoot: kind === 'launchDaemon' })
    const { HOME = '', PATH = '' } = mac.plan().environment
    const environment = { HOME, PATH, METAL_AGENT_SERVICE: '1', ...given }
    const change = { kind, environment, ...(kind === 'launchDaemon' && { userName: 'you' }) } as const
    const written = await mac.install(change)
    const modeNow = async () => (await stat(written.manager.file)).mode & 0o777
    expect(await modeNow()).toBe(mode)
    await chmod(written.manager.file, 0o666)
    expect([(await mac.install(change)).file, await modeNow()]).toEqual(['unchanged', mode])
    await chmod(written.manager.file, 0o666)
    const changed = await mac.install({ ...change, flags: mac.flags({ namespace: 'mars' }) })
    expect([changed.file, await modeNow()]).toEqual(['changed', mode])
  },
)

test('a machine without launchctl, a state folder that cannot be made and a line break in a path are named, and nothing is written', async () => {
  await using mac = await macAt()
  await writeFile(path.join(mac.root, 'file'), '')
  const before = await mac.files()
  const without = { ...mac.host, programFolders: ['/nowhere'] }
  await expect(installService(mac.plan(), { host: without, work: mac.work })).rejects.toThrow(
    /launchctl was not found in \/nowhere/,
  )
  await expect(mac.install({ flags: mac.flags({ 'state-dir': path.join(mac.root, 'file/state') }) })).rejects.toThrow(
    /a folder of the service cannot be used/,
  )
  await expect(mac.install({ flags: mac.flags({ namespace: 'a\nb' }) })).rejects.toThrow(InstallationError)
  expect(await mac.files()).toEqual(before)
})

test('what root makes for another user belongs to that user, a copy of the command too', async (context) => {
  if (process.getuid?.() !== 0) context.skip('only root acts for another user')
  await using mac = await macAt()
  const user = { ...mac.host.user, id: 65_534, groupId: 65_534 }
  await chmod(mac.root, 0o755)
  const stateDir = path.join(mac.root, 'state')
  await mkdir(stateDir, { mode: 0o700 })
  await chown(stateDir, user.id, user.groupId)
  const command = await asOwner({ ...mac.host, isRoot: true, user }, () =>
    copyCommand({ command: '/bin/true', stateDir }),
  )
  expect([(await stat(command)).uid, process.geteuid?.(), process.getegid?.()]).toEqual([user.id, 0, 0])
})

const fail = (): never => {
  throw new Error('No service is installed.')
}

interface MacOptions {
  /** False: its agent says nothing. */
  readonly answers?: boolean
  /** Who has the state folder in place of the service. */
  readonly holder?: number
  readonly isRoot?: boolean
}

/** A home folder, and a launchd of which the job is no agent: what one would say and do is given here. */
async function macAt({ answers = true, holder, isRoot = false }: MacOptions = {}) {
  await using stack = new AsyncDisposableStack()
  const launchctl: LaunchctlStandIn = stack.use(await launchctlStandIn())
  const { dir: root } = stack.use(await temporaryFolder())
  const { dir: downloads } = stack.use(await temporaryFolder())
  const homeDir = path.join(root, 'Users/you & <me>')
  // As every Mac has them.
  for (const one of ['LaunchAgents', 'Application Support', 'Logs']) {
    await mkdir(path.join(homeDir, 'Library', one), { recursive: true })
  }
  const stateDir = path.join(homeDir, 'Library/Application Support/Metalbar')
  // As root this would be the real thing: the test is then root's own.
  const user = { name: 'you', id: isRoot ? 0 : 501, groupId: isRoot ? 0 : 20, homeDir }
  const host: InstallationHost = {
    platform: 'darwin',
    env: {},
    user,
    isRoot,
    systemRoot: root,
    programFolders: [launchctl.folder, '/usr/bin', '/bin'],
  }
  const left: string[] = []
  const agents: Agents = {
    look: async () => {
      const pid = holder ?? (await launchctl.pid())
      return answers && pid !== undefined
        ? { pid, version: '0.1.0', startedAt: '', serverPids: [4711], serving: ['default/tiny'] }
        : undefined
    },
    leave: async (folder) => {
      if (!answers) return 'silent'
      left.push(folder)
      await launchctl.endJob(0)
      return 'leaves'
    },
  }
  const told: string[] = []
  const work = {
    agents,
    tell: (sentence: string) => void told.push(sentence),
    timings: { pollMs: 5, leaveMs: 3_000, startMs: answers ? 60_000 : 1_000 },
  }
  const logs = path.join(homeDir, 'Library/Logs/Metalbar')
  const flags = (change: Readonly<Record<string, string>> = {}) =>
    new Map(
      Object.entries({
        ...{ 'state-dir': stateDir, 'model-store': path.join(stateDir, 'models') },
        ...{ 'log-file': path.join(logs, 'metal-agent.log'), namespace: 'default' },
        ...change,
      }),
    )
  const plan = (change: Partial<ServicePlan> = {}) =>
    examplePlan('launchAgent', { flags: flags(), errorFile: path.join(logs, 'metal-agent.err.log'), ...change })
  const file = path.join(homeDir, 'Library/LaunchAgents', `${label}.plist`)
  const owned = stack.move()
  return {
    ...{ launchctl, root, stateDir, host, left, told, work, flags, plan },
    file,
    install: (change: Partial<ServicePlan> = {}) => installService(plan(change), { host, work }),
    /** A command of this version. */
    installVersion: async (version: string) => {
      const command = path.join(downloads, `metal-agent-${version}`)
      await writeFile(command, `version ${version}`)
      return installService(plan({ program: [copiedCommand(stateDir)] }), { host, work, command })
    },
    files: async () => (await readdir(root, { recursive: true })).toSorted(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
