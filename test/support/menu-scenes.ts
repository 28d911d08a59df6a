import { MemoryBook } from '../../src/agent-core/memory/book.ts'
import { deniedSentence } from '../../src/agent-core/platform/local-network.ts'
import { serviceStates, type ServiceView } from '../../src/contract/service.ts'
import type { AgentSnapshot } from '../../src/contract/snapshot.ts'
import type { AgentView } from '../../src/main/agent/agent-view.ts'
import { defaultPreferences } from '../../src/main/preferences.ts'
import { sampleView, withSnapshot } from './sample-view.ts'
import { sampleService, sampleSnapshot } from './sample-snapshot.ts'

const memory = {
  totalBytes: 103_079_215_104,
  budgetBytes: 96_000_000_000,
  modelsBytes: 38_200_000_000,
  reservedBytes: 0,
  pressure: 'normal',
  pressureSince: '2026-01-02T02:04:05.000Z',
  evictionEnabled: true,
  eviction: 'qwen would be evicted first.',
  waiting: [],
} satisfies AgentSnapshot['memory']

const refusal = (() => {
  const book = new MemoryBook({ ...memory, availableBytes: 21e9 }, () => undefined)
  const rank = { priority: 'normal', isProtected: false, since: 0 } as const
  book.adopt({ key: 'default/others', needBytes: memory.modelsBytes, ...rank })
  const answer = book.admit({
    key: 'default/llama-70b',
    uid: 'uid-2',
    needBytes: 44e9,
    enforcement: 'enforce',
    ...rank,
  })
  if (answer.admitted) throw new Error('it fits')
  return answer
})()

const measuring = { power: { state: 'measuring', message: '', source: 'powermetrics' } } as const

const services = (all: readonly Partial<ServiceView>[]): ServiceView[] =>
  all.map((one, index) =>
    sampleService({ uid: `uid-${index}`, url: `http://${one.name ?? 'qwen'}.default.svc:8080`, ...one }),
  )

const cluster = (changes: Partial<AgentSnapshot['cluster']>) => ({
  cluster: { ...sampleSnapshot().cluster, ...changes },
})

const hostileText = 'a\u0007b\u202Egnp.exe\u2066 <script>alert(1)</script> && rm -rf ~ & \n second line \u{e0041}'

/** Every state of the icon and its menu that a person can meet, by what it is about. */
export const menuScenes: Readonly<Record<string, AgentView>> = {
  'as the design draws it': withSnapshot({
    memory,
    ...measuring,
    powerFigures: { combinedWatts: 41.3 },
    services: services([
      { name: 'phi-4-mini', logFile: '/state/phi/output.log', pid: 7 },
      { name: 'qwen3-30b-a3b', state: 'fetching', reason: 'Fetching', message: 'Downloading the model.' },
      {
        name: 'llama-70b',
        state: 'waiting',
        reason: 'InsufficientMemory',
        message: `${refusal.message}.`,
        memory: {
          needBytes: 44e9,
          priority: 'normal',
          isProtected: false,
          shortage: refusal.brief,
          waysToFit: [
            { kind: 'evict', sentence: 'Evict phi-4-mini, which frees 4.1 GB.', evict: ['default/phi-4-mini'] },
            { kind: 'budget', sentence: 'Raise the budget of memory by 23.0 GB.' },
          ],
        },
      },
      { name: 'gemma', pid: 8 },
    ]),
    figures: {
      'uid-0': {
        footprintBytes: 4.1e9,
        runtime: { state: 'reported', generatedTokensPerSecond: 52.2, requestsRunning: 1 },
      },
      'uid-1': { progress: { doneBytes: 7.9e9, totalBytes: 18.6e9, bytesPerSecond: 61e6 } },
    },
  }),
  'every state of a model': withSnapshot({
    services: services(serviceStates.map((state) => ({ name: state, state, message: `It is ${state}.` }))),
  }),
  'a model in a crash loop': withSnapshot({
    services: services([
      {
        state: 'crash-looping',
        reason: 'CrashLooping',
        message: 'The server ended three times in a row; the next attempt is in 40 s.',
        crash: {
          at: '2026-01-02T03:03:05.000Z',
          failures: 3,
          message:
            'The server ended with exit code 3 while it loaded the model, most likely because the file is damaged.',
          exitCode: 3,
          firstError: 'error: the weights are torn',
        },
        steps: {
          ...sampleService().steps,
          started: { status: 'failed', message: 'It ends again and again.' },
          healthy: { status: 'waiting' },
        },
      },
    ]),
  }),
  'evicted, held and protected models': withSnapshot({
    services: services([
      {
        name: 'evicted',
        state: 'stopped',
        reason: 'Held',
        hold: { cause: 'evicted', since: '2026-01-02T03:03:05.000Z', message: 'Evicted for memory.', by: 'pressure' },
      },
      {
        name: 'stopped',
        state: 'stopped',
        reason: 'Held',
        hold: { cause: 'stopped', since: '2026-01-02T03:03:05.000Z', message: 'Stopped here by a person.' },
      },
      { name: 'protected', memory: { priority: 'normal', isProtected: true } },
    ]),
  }),
  'long names': withSnapshot(
    {
      ...cluster({ context: `arn:aws:eks:eu-central-1:123456789012:cluster/${'x'.repeat(60)}-blue` }),
      services: services([
        { name: `${'deepseek-r1-distill-llama-70b-instruct-'.repeat(4)}q4` },
        { name: `${'deepseek-r1-distill-llama-70b-instruct-'.repeat(4)}q8`, message: 'Serves requests. '.repeat(30) },
      ]),
    },
    {
      contexts: {
        kubeconfig: '/k',
        contexts: ['blue', 'green'].map((colour) => ({
          name: `arn:aws:eks:eu-central-1:123456789012:cluster/${'x'.repeat(60)}-${colour}`,
          server: `https://${'x'.repeat(200)}.eu-central-1.eks.amazonaws.com`,
          inUse: colour === 'blue',
          isDefault: false,
        })),
      },
    },
  ),
  'hostile text': withSnapshot(
    {
      ...cluster({ state: 'offline', message: hostileText }),
      services: services([{ state: 'crash-looping', message: hostileText, url: `http://${hostileText}` }]),
      notices: [hostileText, hostileText.repeat(40)],
    },
    {
      contexts: {
        kubeconfig: '/k',
        contexts: [{ name: hostileText, server: hostileText, inUse: false, isDefault: false }],
      },
      answer: { outcome: 'failed', message: hostileText.repeat(40) },
    },
  ),
  'nothing to serve': withSnapshot({ services: [] }),
  paused: withSnapshot({
    host: { ...sampleSnapshot().host, paused: true },
    services: services([{ state: 'unready', reason: 'Paused', message: 'This machine is paused.' }]),
  }),
  'memory is critically short': withSnapshot({ memory: { ...memory, pressure: 'critical' } }),
  'memory is short': withSnapshot({ memory: { ...memory, pressure: 'warning' } }),
  'memory is short, and a model is in trouble': withSnapshot({
    memory: { ...memory, pressure: 'warning' },
    services: services([{ state: 'refused', message: 'Not on a Mac.' }]),
  }),
  'figures beside the icon': withSnapshot(
    { memory, ...measuring, powerFigures: { combinedWatts: 41.3 } },
    { preferences: { ...defaultPreferences, showTitle: true } },
  ),
  'the cluster is away': withSnapshot(cluster({ state: 'offline', message: 'The API server does not answer.' })),
  'macOS keeps the agent from the local network': withSnapshot(
    cluster({ state: 'offline', cause: 'localNetwork', message: deniedSentence('192.168.1.10') }),
  ),
  'no cluster': withSnapshot(
    {
      ...cluster({ context: '', state: 'offline', message: 'There is no kubeconfig at /home/me/.kube/config.' }),
      services: [],
    },
    { contexts: { problem: 'There is no kubeconfig at /home/me/.kube/config.' } },
  ),
  'a command that was refused': withSnapshot(
    { services: [] },
    {
      answer: {
        outcome: 'refused',
        by: 'agent',
        message: 'The context stays "lab", and nothing was stopped. The cluster does not have LLMKube’s API group.',
        instead: {
          command: { name: 'selectContext', context: 'prod-eu', accept: ['unverified'] },
          label: 'Switch anyway',
        },
      },
    },
  ),
  'the agent is another program': withSnapshot({ services: [] }, { isHere: false }),
  'the first model serves, and the login item is offered': withSnapshot(
    {},
    { loginItem: 'not-registered', offersLoginItem: true },
  ),
  'a newer app is downloaded': withSnapshot(
    { services: [] },
    {
      update: {
        step: 'downloading',
        version: '1.2.3',
        doneBytes: 52_400_000,
        totalBytes: 131_000_000,
        bytesPerSecond: 9_000_000,
      },
    },
  ),
  'its command is linked': withSnapshot(
    { services: [] },
    { commandLink: { state: 'linked', file: '/usr/local/bin/metal-agent' } },
  ),
  'no agent answers': sampleView({ snapshot: undefined, problem: 'No agent is running on the state folder.' }),
  'preferences that cannot be used': sampleView({
    snapshot: undefined,
    isBroken: true,
    preferences: undefined,
    problem: `The preferences /state/preferences.json cannot be used: "showTitle" must be true or false; ${'repair it, '.repeat(10)}or choose Reset preferences in the menu.`,
  }),
}
