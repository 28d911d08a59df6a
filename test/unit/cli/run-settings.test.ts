import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { flagTable, flagsText } from '../../../src/cli/flags.ts'
import { FlagError } from '../../../src/agent-core/util/go-flags.ts'
import { startNotices } from '../../../src/agent-core/settings/settings.ts'
import { parseRunArguments } from '../../../src/cli/run-settings.ts'

const defaults = { modelStore: '/home/me/models', stateDir: '/home/me/state' }
const parse = (...args: string[]) => parseRunArguments(args, defaults, '/here')

function settings(...args: string[]) {
  const request = parse(...args)
  if (request.kind !== 'run') throw new Error(`${request.kind} is not run`)
  return request.settings
}

function complaint(...args: string[]): string {
  try {
    parse(...args)
  } catch (error) {
    if (error instanceof FlagError) return error.message
    throw error
  }
  return 'no complaint'
}

const fromDefaults = {
  namespace: 'default',
  inferenceServiceAllowlist: [],
  modelStore: '/home/me/models',
  allowedModelRoots: [],
  allowUnsafeExtraArgs: false,
  allowedEnv: [],
  allowedDownloadHosts: [],
  hubLoginNamespaces: [],
  stateDir: '/home/me/state',
  ollamaPort: 11_434,
  ollamaStart: false,
  omlxStart: false,
  omlxPort: 8_000,
  drainLimitMs: 30_000,
  port: 9090,
  clientHosts: [],
  clientPort: 9999,
  ingressPort: 9443,
  downloadBytesPerSecond: 0,
  namespaceModelBytes: 0,
  memoryFraction: 0,
  memoryCheckMode: 'enforce',
  evictionEnabled: false,
  listen: 'all',
  publish: 'auto',
  sleepPolicy: 'while-serving',
  awakeOnBattery: false,
  applePowerEnabled: false,
  powerSource: 'powermetrics',
  logLevel: 'info',
  givenByFlags: [],
  flagsNotInEffect: [],
}

test('the port of the ingress is another one than those of health and client proxy, where it is stated', () => {
  expect(settings('--ingress-port', '9444').ingressPort).toBe(9_444)
  for (const flag of ['--port', '--client-port']) {
    expect(() => settings('--ingress-port', '9444', flag, '9444')).toThrow('--ingress-port must be another port')
    // The default has to give way to what people chose long ago.
    expect(settings(flag, '9443').ingressPort).toBe(9_443)
  }
  expect(() => settings('--ingress-port', '0')).toThrow('must be a port number from 1 to 65535')
})

test('no flags mean what they mean to the Go agent, the model store aside', () => {
  expect(settings()).toEqual(fromDefaults)
})

test("the command line of the Go agent's launchd file is understood", () => {
  const line =
    '--namespace default --model-store /tmp/llmkube-models --llama-server /opt/homebrew/bin/llama-server --port 9090 --log-level info'
  expect(settings(...line.split(' '))).toEqual({
    ...fromDefaults,
    modelStore: '/tmp/llmkube-models',
    llamaServer: '/opt/homebrew/bin/llama-server',
    givenByFlags: ['namespace', 'modelStore', 'llamaServer', 'port', 'logLevel'],
  })
})

test.each([
  { args: ['--namespace='], means: { namespace: undefined, givenByFlags: ['namespace'] } },
  { args: ['--legacy-direct-endpoints'], means: { publish: 'direct', givenByFlags: ['publish'] } },
  { args: ['--all-namespaces'], means: { namespace: undefined, givenByFlags: ['namespace'] } },
  { args: ['--namespace', '', '--all-namespaces'], means: { namespace: undefined, givenByFlags: ['namespace'] } },
  {
    args: ['--inference-service-allowlist', ' a, b,,c '],
    means: { inferenceServiceAllowlist: ['a', 'b', 'c'], givenByFlags: ['inferenceServiceAllowlist'] },
  },
  {
    args: ['--llama-server-bin', 'bin/llama-server'],
    means: { llamaServer: '/here/bin/llama-server', givenByFlags: ['llamaServer'] },
  },
  { args: ['--llama-server', 'llama-server'], means: { llamaServer: 'llama-server', givenByFlags: ['llamaServer'] } },
  {
    args: ['--model-store', 'models', '--state-dir', 's'],
    means: { modelStore: '/here/models', stateDir: '/here/s', givenByFlags: ['modelStore', 'stateDir'] },
  },
  {
    args: ['--llama-server-port', '-5', '--port', '0'],
    means: { port: 0, givenByFlags: ['portRange', 'port'] },
  },
  {
    args: ['--llama-server-port', '8081'],
    means: { portRange: { from: 8_081, to: 8_081 }, givenByFlags: ['portRange'] },
  },
  { args: ['--llama-server-startup-timeout', '-1s'], means: { givenByFlags: ['startupStallMs'] } },
  {
    args: ['--llama-server-startup-timeout=3m'],
    means: { startupStallMs: 180_000, givenByFlags: ['startupStallMs'] },
  },
  { args: ['--startup-timeout=3m'], means: { startupStallMs: 180_000, givenByFlags: ['startupStallMs'] } },
  { args: ['--drain-timeout=1m30s'], means: { drainLimitMs: 90_000, givenByFlags: ['drainLimitMs'] } },
  { args: ['--log-file=/var/log/agent.log'], means: { logFile: '/var/log/agent.log', givenByFlags: ['logFile'] } },
  { args: ['--log-file='], means: { givenByFlags: ['logFile'] } },
  {
    args: ['--port-range', '30000-30099'],
    means: { portRange: { from: 30_000, to: 30_099 }, givenByFlags: ['portRange'] },
  },
  {
    args: ['--download-limit', '1.5Gi'],
    means: { downloadBytesPerSecond: 1.5 * 1024 ** 3, givenByFlags: ['downloadBytesPerSecond'] },
  },
  {
    args: ['--hub-endpoint', 'https://mirror.lan/hub', '--hub-token-file', 'token'],
    means: {
      hubEndpoint: 'https://mirror.lan/hub',
      hubTokenFile: '/here/token',
      givenByFlags: ['hubEndpoint', 'hubTokenFile'],
    },
  },
  { args: ['--ca-file', 'ca.pem'], means: { caFile: '/here/ca.pem', givenByFlags: ['caFile'] } },
  { args: ['--host-ip', '100.64.0.7'], means: { hostIp: '100.64.0.7', givenByFlags: ['hostIp'] } },
  { args: ['--log-level', 'WARNING'], means: { logLevel: 'warn', givenByFlags: ['logLevel'] } },
  { args: ['--log-level', 'loud'], means: { logLevel: 'info', givenByFlags: ['logLevel'] } },
  {
    args: ['--kubeconfig', 'kube.yaml', '--context', 'lab'],
    means: { kubeconfig: '/here/kube.yaml', context: 'lab', givenByFlags: ['kubeconfig', 'context'] },
  },
])('$args', ({ args, means }) => {
  expect(settings(...args)).toEqual({ ...fromDefaults, ...means })
})

test.each([
  [['--port', '65536'], '--port must be a port number from 0 to 65535, not 65536.'],
  [['--llama-server-port', '70000'], '--llama-server-port must be a port number from 0 to 65535, not 70000.'],
  [
    ['--port-range', '30099-30000'],
    '--port-range must be two ports from 1 to 65535, the lower first, such as 30000-30099, not "30099-30000".',
  ],
  [
    ['--port-range', 'all'],
    '--port-range must be two ports from 1 to 65535, the lower first, such as 30000-30099, not "all".',
  ],
  [
    ['--host-ip', 'studio.local'],
    '--host-ip must be an IPv4 or IPv6 address of this host, such as 192.168.1.20, not "studio.local".',
  ],
  [
    ['--host-ip', 'fe80::1%en0'],
    '--host-ip must be an IPv4 or IPv6 address of this host, such as 192.168.1.20, not "fe80::1%en0".',
  ],
  [['--host-ip', 'FD00:0::20'], '--host-ip must be written as fd00::20, not "FD00:0::20".'],
  [
    ['--host-ip', '::1'],
    '--host-ip must be an address that the cluster can reach, and this is a loopback address, not "::1".',
  ],
  [['--host-ip', '::ffff:10.0.0.1'], '--host-ip must be written as ::ffff:a00:1, not "::ffff:10.0.0.1".'],
  [
    ['--host-ip', '127.0.0.1'],
    '--host-ip must be an address that the cluster can reach, and this is a loopback address, not "127.0.0.1".',
  ],
  [
    ['--host-ip', '169.254.3.4'],
    '--host-ip must be an address that the cluster can reach, and this is a link-local address, not "169.254.3.4".',
  ],
  [
    ['--runtime', 'olama'],
    '--runtime must be one of llama-server, llamacpp, mlx-lm, mlx-server, vllm-swift, tensorfold, omlx, ollama, not "olama": did you mean ollama?',
  ],
  [['--download-limit', '20MB'], '--download-limit wants a size such as 512Ki, 20Mi or 1Gi, not "20MB".'],
  [['--model-store', ''], '--model-store must not be empty.'],
  [
    ['--publish', 'auto', '--legacy-direct-endpoints'],
    '--publish and --legacy-direct-endpoints contradict each other: give one of them.',
  ],
  [
    ['--namespace', 'a', '--all-namespaces'],
    '--namespace and --all-namespaces contradict each other: give one of them.',
  ],
  [
    ['--llama-server-port', '8081', '--port-range', '1-2'],
    '--llama-server-port and --port-range contradict each other: give one of them.',
  ],
  [['--eviction-enabled', 'false'], '"false" is not a flag: write --eviction-enabled=false.'],
  [['--port', '1', 'serve'], '"serve" is not a flag: the agent takes flags only, and metal-agent --help lists them.'],
])('%s is refused in one sentence', (args, says) => {
  expect(complaint(...args)).toBe(says)
})

test('flags of the Go agent that change nothing here are read, and said to change nothing when they ask for something', () => {
  const given = settings(
    ...['--memory-fraction', '0.8', '--eviction-enabled', '--omlx-port', '0', '--mlx-server-port', '0'],
    ...['--max-watch-failures', '5', '--vllm-swift-startup-timeout', '5m', '--memory-watchdog-interval=1s'],
    ...['--powermetrics-bin', '/opt/powermetrics'],
  )
  expect([given.givenByFlags, startNotices(given)]).toEqual([
    ['memoryFraction', 'evictionEnabled', 'omlxPort'],
    [
      '--max-watch-failures is not in effect: a cluster that does not answer never ends the agent, which asks again with back-off.',
      '--vllm-swift-startup-timeout is not in effect: one setting is for all runtimes, --startup-timeout.',
      '--memory-watchdog-interval is not in effect: memory is checked every 10 s, and every 5 s while it is short.',
      '--powermetrics-bin is not in effect: the sudo rule names /usr/bin/powermetrics, and no other is run.',
    ],
  ])
})

test('the address for Prometheus is an address and a port, and the file of its token a whole path', () => {
  const { metricsAddress, metricsTokenFile } = settings(
    '--metrics-address',
    '0.0.0.0:9091',
    '--metrics-token-file',
    '/etc/token',
  )
  expect([metricsAddress, metricsTokenFile]).toEqual(['0.0.0.0:9091', '/etc/token'])
  expect(complaint('--metrics-token-file', 'token')).toMatch(/^--metrics-token-file must be an absolute path/)
  expect(complaint('--metrics-address', 'mac.lan:9091')).toBe(
    '--metrics-address must be an address of this host, not a name, and a port from 1 to 65535, such as 192.168.1.20:9091 or 0.0.0.0:9091, not "mac.lan:9091".',
  )
})

test('--version and --help win over an agent that would start', () => {
  expect([parse('--port', '1', '--version'), parse('--help', 'flags')]).toEqual([
    { kind: 'version' },
    { kind: 'help', about: 'flags' },
  ])
})

test('every flag of the Go agent has its default here, and the help names each flag once', () => {
  const goDefaults = JSON.parse(readFileSync(new URL('go-agent-flags.json', import.meta.url), 'utf8')) as object
  const table = flagTable(defaults)
  const ours = Object.fromEntries(Object.keys(goDefaults).map((name) => [name, table[name]?.default]))
  const named = [...flagsText(defaults).matchAll(/^ {2}--([\w-]+)/gm)].map(([, name]) => name)
  expect({ ours, named }).toEqual({
    // The format of a Model decides where nobody does, and each runtime has a time of its own for a start.
    ours: { ...goDefaults, 'model-store': defaults.modelStore, runtime: '', 'llama-server-startup-timeout': 0 },
    named: Object.keys(table),
  })
})

test.each([
  {
    args: ['--memory-fraction', '1.5'],
    says: '--memory-fraction must be from 0 (automatic) to 1, not 1.5.',
  },
  { args: ['--memory-budget', '1Ki'], says: '--memory-budget must be at least 1Mi, not 1024.' },
  { args: ['--memory-check-mode', 'maybe'], says: '--memory-check-mode must be enforce or warn, not "maybe".' },
  { args: ['--drain-timeout', '2h'], says: '--drain-timeout must be from 0 to 1h, not 7200000.' },
])('$args is refused with a sentence', ({ args, says }) => {
  expect(complaint(...args)).toBe(says)
})
