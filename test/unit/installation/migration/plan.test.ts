import { expect, test } from 'vitest'
import { inferenceServiceSpec } from '../../../../src/agent-core/kube/resources.ts'
import type { FoundService } from '../../../../src/installation/migration/cluster.ts'
import { readGoAgentCommand } from '../../../../src/installation/migration/go-agent.ts'
import { planMigration, planText, type Findings } from '../../../../src/installation/migration/plan.ts'

const service = (name: string, changes: Partial<FoundService> = {}): FoundService => ({
  namespace: 'default',
  name,
  spec: inferenceServiceSpec.parse({ modelRef: name }),
  published: { address: '192.168.1.20', port: 5_001, ready: true },
  isRelayed: false,
  elsewhere: undefined,
  isMoved: false,
  ...changes,
})

const job = {
  file: '/Users/me/Library/LaunchAgents/com.llmkube.metal-agent.plist',
  label: 'com.llmkube.metal-agent',
  domain: 'gui/501',
  program: '/usr/local/bin/llmkube-metal-agent',
  args: [],
  environment: { PATH: '/usr/bin' },
  logFile: '/tmp/llmkube-metal-agent.log',
} as const

const cluster = (services: readonly FoundService[], missingRights: readonly string[] = []) => ({
  services,
  agentVersions: ['v0.9.19'],
  pins: [],
  missingRights,
})

const findings = (changes: Partial<Findings> = {}): Findings => ({
  job,
  command: readGoAgentCommand(['--namespace', 'default']),
  agent: {
    pid: 40,
    startTime: 'x',
    commandLine: '/usr/local/bin/llmkube-metal-agent',
    suspended: false,
    servers: [
      { pid: 41, startTime: 'x', port: 5_001 },
      { pid: 42, startTime: 'x', port: 5_002 },
    ],
  },
  store: {
    how: 'link',
    from: '/private/tmp/llmkube-models',
    to: '/Users/me/models',
    bytes: 5e9,
    files: [
      { path: 'big/big.gguf', bytes: 4e9 },
      { path: 'small/small.gguf', bytes: 1e9 },
    ],
    problems: [],
    notes: [],
  },
  cluster: cluster([
    service('big'),
    service('small', { published: { address: '192.168.1.20', port: 5_003, ready: true } }),
  ]),
  totalBytes: 64 * 2 ** 30,
  ownLog: '/Users/me/Library/Logs/Metalbar',
  ownAddress: '192.168.1.20',
  ownFlags: [],
  problems: [],
  version: 'v0.9.19',
  ...changes,
})

test('the smallest model goes first; each is told with its one restart, and so is a server that nobody needs', () => {
  const plan = planMigration(findings())
  expect(plan.transfers.map(({ service: { name }, server }) => [name, server?.pid])).toEqual([
    ['small', undefined],
    ['big', 41],
  ])
  expect(plan.strays.map(({ pid }) => pid)).toEqual([42])
  const text = planText(plan)
  expect(text).toContain(
    "LLMKube's Go agent v0.9.19 (com.llmkube.metal-agent, /Users/me/Library/LaunchAgents/com.llmkube.metal-agent.plist): process 40 with 2 servers.",
  )
  expect(text).toContain('Namespace: default. Address: 192.168.1.20.')
  expect(planMigration(findings({ cluster: 'silent' })).kept).toContain('Namespace: default.')
  expect(text).toContain('default/big is restarted once (process 41, port 5001).')
  expect(text).toContain('default/small is started: nothing answers for it now.')
  expect(text).toContain('Process 42 (port 5002) serves nothing that is published and is ended.')
  expect(text).toContain('Models: 5.0 GB in 2 files get a second name in /Users/me/models')
  expect(text).not.toContain('In the way')
  const why = 'A running server of the Go agent cannot be taken over'
  expect([text, planText(planMigration(findings({ cluster: cluster([]) })))].map((one) => one.includes(why))).toEqual([
    true,
    false,
  ])
})

test('each default that differs is announced, with the flag that keeps it', () => {
  const { changed } = planMigration(findings({ totalBytes: 192 * 2 ** 30 }))
  expect(changed).toContain(
    '--memory-fraction: there 75 % of 192 GiB may be taken by one model, here 90 % by all models together; "-- --memory-fraction 0.75" keeps it.',
  )
  const share = (totalBytes: number, flags: readonly string[] = []) =>
    planMigration(findings({ totalBytes, command: readGoAgentCommand(flags) })).changed[0]
  const together = expect.stringContaining('each model is compared with the budget by itself') as string
  expect([share(128 * 2 ** 30 - 1), share(128 * 2 ** 30), share(128 * 2 ** 30, ['--memory-fraction=0.5'])]).toEqual([
    together,
    expect.stringContaining('75 % of 128 GiB'),
    together,
  ])
  expect(changed).toContainEqual(
    expect.stringContaining('--allow-unsafe-extra-args: there every argument of spec.extraArgs is passed on'),
  )
  expect(changed).toContain(
    'there the log is /tmp/llmkube-metal-agent.log, here the log is in /Users/me/Library/Logs/Metalbar.',
  )
})

test('that services may be published for relays from then on is announced, except where the flags keep what was', () => {
  const about = (changes: Partial<Findings> = {}) =>
    planMigration(findings(changes)).changed.filter((one) => one.startsWith('--publish:'))
  const identity = { folder: '/ingress', pin: 'x' }
  const command = readGoAgentCommand(['--legacy-direct-endpoints'])
  expect([about(), about({ identity }), about({ command })]).toEqual([
    [
      '--publish: there services are published directly, here for LLMKube\'s relay if the cluster has one; "-- --publish direct" keeps it.',
    ],
    [],
    [],
  ])
})

test('what the Go agent was told otherwise is no default that differs', () => {
  const args = ['--allowed-download-hosts', 'nas.lan', '--kube-context', 'lab', '--allow-unsafe-extra-args']
  const { changed } = planMigration(findings({ command: readGoAgentCommand(args) }))
  const about = /models are downloaded from any address|current at each start|every argument of spec.extraArgs/
  expect([
    changed.filter((one) => about.test(one)),
    planMigration(findings()).changed.filter((one) => about.test(one)),
  ]).toMatchObject([[], { length: 3 }])
})

test('the address that the cluster knows is kept where ours would choose another, and not stated where it would not', () => {
  expect(planMigration(findings()).flags).toEqual(['--namespace=default'])
  expect(planMigration(findings({ ownAddress: '10.0.0.9' })).flags).toContain('--host-ip=192.168.1.20')
})

test('KUBECONFIG of the plist is taken over, one that names several files is said, and so are other variables', () => {
  const withEnvironment = (environment: Readonly<Record<string, string>>) =>
    planMigration(findings({ job: { ...job, environment } }))
  expect(withEnvironment({ KUBECONFIG: '/a' }).flags).toContain('--kubeconfig=/a')
  const { flags, notes } = withEnvironment({ KUBECONFIG: '/a:/b', HTTPS_PROXY: 'http://p', GGML_METAL_ENABLE: '1' })
  expect([flags.some((flag) => flag.includes('kubeconfig')), notes]).toEqual([
    false,
    [
      expect.stringMatching(/^KUBECONFIG of com\.llmkube\.metal-agent names several files/),
      expect.stringMatching(/^HTTPS_PROXY of the plist's environment is not taken over/),
    ],
  ])
})

test('another volume is said with size and time', () => {
  const { store } = findings()
  const plan = planMigration(findings({ store: { ...store, how: 'copy' } }))
  expect(plan.kept).toContain(
    'Models: 5.0 GB in 2 files are copied to another volume, to /Users/me/models, before anything is stopped: about 10 s.',
  )
})

test('in relay mode the servers are found behind the ingress and end together, and another key than the cluster knows is said', () => {
  const relayed = (name: string, enginePort: number): FoundService =>
    service(name, { isRelayed: true, published: { address: '192.168.1.20', port: 9_443, ready: true, enginePort } })
  const services = [relayed('big', 5_002), relayed('small', 5_001)]
  const identity = { folder: '/Users/me/ingress', pin: 'ours' }
  const planned = (pins: readonly string[]) =>
    planMigration(findings({ identity, cluster: { ...cluster(services), pins } }))
  const plan = planned(['ours'])
  expect(plan.transfers.map(({ service: { name }, server }) => [name, server?.pid])).toEqual([
    ['small', 41],
    ['big', 42],
  ])
  expect([plan.strays, plan.notes]).toEqual([[], []])
  expect(plan.kept).toContain('Identity by which relays know this machine: certificate and key of /Users/me/ingress.')
  expect(planText(plan)).toContain('At a moment without requests the Go agent ends with all of them')
  expect(planned(['another']).notes).toEqual([
    expect.stringContaining('The cluster knows another key than the one in /Users/me/ingress'),
  ])
})

test('rights that are missing, a silent cluster and services of others are said', () => {
  expect(planMigration(findings({ cluster: cluster([], ['patch services', 'watch models']) })).problems).toEqual([
    expect.stringContaining('user may not patch services, watch models, which this agent needs'),
  ])
  expect(planMigration(findings({ cluster: 'The cluster does not answer.' })).problems).toEqual([
    'The cluster does not answer.',
  ])
  const others = cluster([
    service('theirs', { published: undefined, elsewhere: '10.0.0.3' }),
    service('new', { published: undefined }),
  ])
  expect(planMigration(findings({ cluster: others })).notes).toEqual([
    'Not served now, and started by this agent as soon as it runs: default/new.',
    'default/theirs is served by another machine (10.0.0.3) and is left alone.',
  ])
})

test('what this agent would refuse is named before anything is touched, unless a flag allows it', () => {
  const odd = service('odd', { spec: inferenceServiceSpec.parse({ modelRef: 'odd', extraArgs: ['--log-file', '/x'] }) })
  expect(planMigration(findings({ cluster: cluster([odd]) })).refusals).toEqual([
    expect.stringContaining('default/odd would not be served: spec.extraArgs: --log-file is refused'),
  ])
  expect(
    planMigration(findings({ cluster: cluster([odd]), ownFlags: ['--allow-unsafe-extra-args'] })).refusals,
  ).toEqual([])
})
