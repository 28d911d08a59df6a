import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatAge, renderStatus } from '../../../src/cli/status-verbs.ts'
import { serviceStates } from '../../../src/contract/service.ts'
import { deniedSentence } from '../../../src/agent-core/platform/local-network.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

const plain = { columns: undefined, colour: false, unicode: true }

const two = sampleSnapshot({
  notices: ['There is no Metal on this machine: models run on the CPU.'],
  figures: { llama: { progress: { doneBytes: 1_720_000_000, totalBytes: 4_200_000_000, bytesPerSecond: 52_300_000 } } },
  services: [
    sampleService({ address: '192.168.1.20', port: 43_211 }),
    sampleService({
      name: 'llama',
      namespace: 'team-a',
      state: 'fetching',
      reason: 'Fetching',
      message: 'Downloads the model from models.example.org.',
      model: 'llama-70b',
      since: '2026-01-02T03:03:55.000Z',
      uid: 'llama',
    }),
  ],
})

test('where the cluster allows too little, the line after its reason is the way to what gives the rights', () => {
  const denied = sampleSnapshot({ cluster: { ...two.cluster, state: 'denied', message: 'These credentials may not.' } })
  expect(renderStatus(denied, plain).split('\n').slice(1, 3)).toEqual([
    '         These credentials may not.',
    '         For an administrator, to grant the rights: metal-agent rights',
  ])
  expect(renderStatus(two, plain)).not.toContain('rights')
})

test('a narrow terminal gives the sentence a line of its own and cuts it, never the state', () => {
  expect(
    renderStatus(two, { ...plain, columns: 60, unicode: false })
      .split('\n')
      .slice(5),
  ).toEqual([
    'NAME   NAMESPACE  STATE       MODEL       ADDRESS        AGE',
    'qwen   default    * ready     qwen-small  192.16..43211  3m',
    '    Serves requests.',
    'llama  team-a     v fetching  llama-70b   -              10s',
    '    40 % of 4.2 GB, 52.3 MB/s: Downloads the model from mo..',
    '',
  ])
})

const working = sampleSnapshot({
  services: [
    sampleService({ uid: 'a' }),
    sampleService({ uid: 'b', name: 'idle' }),
    sampleService({ uid: 'c', name: 'mute' }),
  ],
  figures: {
    a: {
      runtime: {
        ...{ state: 'reported', generatedTokensPerSecond: 23.44, requestsRunning: 2, requestsWaiting: 1 },
        slow: 'Generates 12.3 tokens/s.',
      },
    },
    b: { runtime: { state: 'reported', requestsRunning: 0, requestsWaiting: 0 } },
    c: { runtime: { state: 'notReported', message: 'It does not tell.' } },
  },
})

test('what runtimes report has columns where there is room, and what they do not report reads so', () => {
  expect(renderStatus(working, plain).split('\n').slice(4)).toEqual([
    'NAME  NAMESPACE  STATE    MODEL       ADDRESS  AGE  TOKENS/S      REQUESTS       MESSAGE',
    'qwen  default    ● ready  qwen-small  -        3m   23.4          2 (1 waiting)  Serves requests. Generates 12.3 tokens/s.',
    'idle  default    ● ready  qwen-small  -        3m   -             0              Serves requests.',
    'mute  default    ● ready  qwen-small  -        3m   not reported  -              Serves requests.',
    '',
  ])
})

const drawing = (watts: Readonly<Record<string, number | undefined>>) =>
  sampleSnapshot({
    services: Object.keys(watts).map((uid) => sampleService({ uid, name: uid })),
    figures: Object.fromEntries(Object.entries(watts).map(([uid, share]) => [uid, { powerShareWatts: share }])),
  })

test('the share of power is an estimate of two digits: a column where there is room, else in the sentence of who works', () => {
  const shares = drawing({ large: 12.4, small: 0.42, idle: 0, mute: undefined })
  const shown = (columns: number) =>
    renderStatus(shares, { ...plain, columns })
      .split('\n')
      .slice(4)
  expect(shown(120)).toEqual([
    'NAME   NAMESPACE  STATE    MODEL       ADDRESS  AGE  POWER    MESSAGE',
    'large  default    ● ready  qwen-small  -        3m   ~12 W    Serves requests.',
    'small  default    ● ready  qwen-small  -        3m   ~0.42 W  Serves requests.',
    'idle   default    ● ready  qwen-small  -        3m   ~0 W     Serves requests.',
    'mute   default    ● ready  qwen-small  -        3m   -        Serves requests.',
    '',
  ])
  expect(shown(80).filter((line) => line.startsWith(' '))).toEqual([
    '    ~12 W: Serves requests.',
    '    ~0.42 W: Serves requests.',
    '    Serves requests.',
    '    Serves requests.',
  ])
})

test.each([
  [{ doneBytes: 996, totalBytes: 1_000, bytesPerSecond: 1 }, '99 % of 1.0 kB, 1 B/s: '],
  [{ doneBytes: 1_000, totalBytes: 1_000, bytesPerSecond: 1 }, '100 % of 1.0 kB, 1 B/s: '],
  [{ doneBytes: 0, totalBytes: 0, bytesPerSecond: 0 }, '0 B, 0 B/s: '],
])('a download of which there is %o is shown as %s', (progress, shown) => {
  const fetching = sampleSnapshot({
    services: [sampleService({ uid: 'one', message: 'Downloads.' })],
    figures: { one: { progress } },
  })
  expect(renderStatus(fetching, plain)).toContain(`  ${shown}Downloads.\n`)
})

test('a cluster that does not answer says so, and no host address says why', () => {
  const stale = sampleSnapshot({
    services: [],
    cluster: {
      context: 'lab',
      server: 'https://10.0.0.1:6443',
      state: 'stale',
      message: 'The API server does not answer; what runs goes on.',
      since: '2026-01-02T03:04:00.000Z',
    },
    host: {
      nodeId: 'n',
      displayName: 'studio',
      platform: 'linux',
      message: 'no address that the cluster can reach',
      paused: false,
    },
  })
  expect(renderStatus(stale, plain)).toBe(`Cluster  lab (https://10.0.0.1:6443), all namespaces: stale for 5s
         The API server does not answer; what runs goes on.
Host     studio, no address that the cluster can reach
Node     n, agent 1.2.3 for 2h0m

No InferenceService is known while the cluster is not watched.
`)
})

test('no services, and no cluster at all, are said in so many words', () => {
  const offline = sampleSnapshot({
    services: [],
    cluster: {
      context: '',
      server: '',
      state: 'offline',
      message: 'There is no kubeconfig.',
      since: sampleSnapshot().now,
    },
  })
  expect([
    renderStatus(sampleSnapshot({ services: [] }), plain)
      .split('\n')
      .at(-2),
    renderStatus(offline, plain).split('\n').slice(0, 2),
  ]).toEqual([
    'No InferenceService for this host in namespace default yet.',
    ['Cluster  offline for 0s', '         There is no kubeconfig.'],
  ])
})

test('where macOS keeps the agent from the local network, it is said with the command that opens the pane', () => {
  const { cluster } = sampleSnapshot()
  const denied = sampleSnapshot({
    cluster: { ...cluster, state: 'offline', cause: 'localNetwork', message: deniedSentence('192.168.1.10') },
  })
  expect(renderStatus(denied, plain).split('\n').slice(1, 3)).toEqual([
    '         macOS does not let Metalbar reach your local network (192.168.1.10): allow it in System Settings → Privacy & Security → Local Network.',
    "         To open that pane: open 'x-apple.systempreferences:com.apple.preference.security?Privacy_LocalNetwork'",
  ])
})

test('no text of a cluster steers the terminal', () => {
  const hostile = sampleSnapshot({
    services: [sampleService({ message: 'a\u001b[2Jb\nc\u202ed', model: 'm\r\n', name: 'x\u0007' })],
    notices: ['\u001b]0;title\u0007'],
  })
  const text = renderStatus(hostile, plain).replaceAll('\n', '')
  expect(/[\p{Cc}\p{Bidi_Control}]/u.test(text)).toBe(false)
})

test('whatever the width, every state is there in full and no line is longer than the terminal can take', () => {
  const name = fc.string({ unit: fc.constantFrom('a', 'b', '-', '9'), minLength: 1, maxLength: 253 })
  const service = fc
    .record({ name, namespace: name, model: name, state: fc.constantFrom(...serviceStates), message: fc.string() })
    .map((fields) => sampleService(fields))
  fc.assert(
    fc.property(
      fc.array(service, { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 20, max: 300 }),
      (services, columns) => {
        const text = renderStatus(sampleSnapshot({ services }), { ...plain, columns })
        const lines = text.trimEnd().split('\n')
        const leastTable = 12 + 9 + 15 + 10 + 7 + 3 + 5 * 2
        expect(services.filter(({ state }) => !text.includes(` ${state}`))).toEqual([])
        expect(lines.filter((line) => line.length > Math.max(columns, leastTable))).toEqual([])
      },
    ),
  )
})

test.each([
  ['2026-01-02T03:04:05.000Z', '0s'],
  ['2026-01-02T03:05:00.000Z', '0s'],
  ['2026-01-02T03:02:06.000Z', '119s'],
  ['2026-01-02T03:02:05.000Z', '2m'],
  ['2026-01-02T00:52:05.000Z', '2h12m'],
  ['2026-01-01T15:04:05.000Z', '12h'],
  ['2025-12-30T03:04:05.000Z', '3d'],
])('what began at %s is %s old', (since, age) => {
  expect(formatAge(since, '2026-01-02T03:04:05.000Z')).toBe(age)
})
