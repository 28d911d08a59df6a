import type { AppState } from '../../../src/contract/app-bridge.ts'
import { LinkError } from '../../../src/contract/client.ts'
import type { ViewName } from '../../../src/renderer/store.ts'
import { sampleSnapshot } from '../sample-snapshot.ts'
import { FakeAgent } from './fake-agent.ts'
import {
  answering,
  refusal,
  setElsewhere,
  withCrashLines,
  withEarlierCrash,
  withEarlierRun,
  withHistory,
  withModels,
  withNews,
  withPreview,
  withServices,
  withSettings,
  withStartFile,
} from './scene-agents.ts'
import { energyOff, noEnergyYet, tokensOnly, weekOfEnergy } from './scene-energy.ts'
import {
  argo,
  chooseFile,
  fitting,
  fitUnknown,
  fitWithoutSecret,
  misfitting,
  refusedAddition,
  withDeletion,
  withFit,
  withWays,
} from './scene-additions.ts'
import { drawPower, inMemory, measuring, memory, powerRefused, working } from './scene-gauges.ts'
import { updateNames, updateScenes } from './scene-updates.ts'
import { firstRunNames, firstRunScenes, onFirstRun } from './scene-first-run.ts'
import {
  crashing,
  every,
  evicted,
  fetching,
  gigabyte,
  held,
  longest,
  paused,
  ready,
  starting,
  stopping,
} from './scene-services.ts'

/** A state of the window worth looking at. */
export interface Scene {
  readonly agent: () => FakeAgent
  readonly app?: Partial<AppState>
  /** Turned to first. */
  readonly view?: ViewName
  /** Name of the service whose detail is opened. */
  readonly open?: string
  /** Looked up on the page where a model is added; empty = only turned to that page. */
  readonly add?: string
  /** Then written, by the label of the field. */
  readonly fill?: Readonly<Record<string, string>>
  /** Then chosen among several, in this order. */
  readonly choose?: readonly string[]
  /** Then unfolded, by what stands on them. */
  readonly unfold?: readonly string[]
  /** Then scrolled to, by the name of the group. */
  readonly at?: string
  /** Then pressed, in this order. */
  readonly press?: readonly string[]
  /** Done to the agent at the end. */
  readonly then?: (agent: FakeAgent) => void
  readonly width?: number
  readonly height?: number
  /** How much larger than usual a person reads. */
  readonly textScale?: number
}

const cluster = sampleSnapshot().cluster

export const sceneNames = [
  'connecting',
  'no-agent',
  'no-access',
  'empty',
  'empty-unfolded',
  ...firstRunNames,
  ...updateNames,
  'memory',
  'memory-wide',
  'memory-short',
  'power',
  'power-off',
  'services',
  'work',
  'does-not-fit',
  'evicted-for-it',
  'delete',
  'delete-managed',
  'add',
  'add-files',
  'add-fits',
  'add-does-not-fit',
  'add-refused',
  'add-unknown',
  'add-secret',
  'add-wide',
  'add-large-text',
  'evicted',
  'other-machine',
  'models',
  'models-delete',
  'activity',
  'activity-answered',
  'energy',
  'energy-service',
  'energy-off',
  'energy-empty',
  'energy-tokens',
  'settings',
  'settings-all',
  'settings-start',
  'settings-power-rule',
  'settings-uninstall',
  'settings-large-text',
  'settings-changed',
  'settings-conflict',
  'settings-memory',
  'settings-memory-large-text',
  'services-wide',
  'detail-wide',
  'detail',
  'detail-tall',
  'detail-news',
  'log-search',
  'log-previous',
  'no-previous-log',
  'download',
  'starting',
  'draining',
  'crash',
  'crash-lines',
  'crash-over',
  'hold',
  'stop-pending',
  'stop-refused',
  'stop-unknown',
  'stale',
  'cluster-away',
  'paused',
  'held-after-panic',
  'no-address',
  'long-names',
  'long-names-detail',
  'settings-production',
  'large-text',
  'large-text-detail',
  'large-text-models',
  'large-text-activity',
  'large-text-settings',
  'large-text-first-run',
] as const
export type SceneName = (typeof sceneNames)[number]

/** By the name of its picture. */
export const scenes: Readonly<Record<SceneName, Scene>> = {
  connecting: { agent: () => new FakeAgent() },
  'no-agent': {
    agent: () => {
      const agent = new FakeAgent()
      agent.leave(new LinkError('gone', 'No agent answers on this computer: start one with `metal-agent`.'))
      return agent
    },
  },
  'no-access': {
    agent: () => {
      const agent = new FakeAgent()
      agent.leave(new LinkError('refused', 'The address was used before: run `metal-agent ui` for a new one.'))
      return agent
    },
  },
  empty: { agent: onFirstRun() },
  'empty-unfolded': { agent: onFirstRun(), unfold: ['Make a small one in a terminal'], height: 980 },
  ...firstRunScenes,
  ...updateScenes,
  memory: { agent: () => new FakeAgent(sampleSnapshot(inMemory)) },
  'memory-wide': {
    agent: () => new FakeAgent(sampleSnapshot({ ...inMemory, ...measuring })),
    width: 1_100,
    height: 760,
  },
  'memory-short': {
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          ...inMemory,
          memory: { ...memory, pressure: 'critical', problem: 'Applications that are no models hold most of it.' },
          memoryFigures: { availableBytes: 2.1 * gigabyte },
        }),
      ),
  },
  power: { agent: () => new FakeAgent(sampleSnapshot({ ...inMemory, ...measuring })), then: drawPower },
  'power-off': { agent: powerRefused, press: ['Turn on'] },
  services: { agent: withServices(every) },
  'services-wide': { agent: withServices(every), width: 1_100, height: 760 },
  'detail-wide': { agent: withServices(every), open: 'phi-4-mini', width: 1_100, height: 760 },
  detail: { agent: withServices([ready]), open: 'phi-4-mini' },
  'detail-tall': { agent: withServices([ready]), open: 'phi-4-mini', height: 980 },
  'detail-news': { agent: withNews, open: 'phi-4-mini', height: 1_600 },
  'log-search': {
    agent: withServices([ready]),
    open: 'phi-4-mini',
    fill: { 'Search the log': 'load' },
    press: ['Next match', 'Next match'],
    height: 1_300,
  },
  'log-previous': { agent: withEarlierRun, open: 'phi-4-mini', choose: ['Previous'], height: 1_300 },
  'no-previous-log': { agent: withServices([ready]), open: 'phi-4-mini', choose: ['Previous'], height: 1_300 },
  download: { agent: withServices([fetching]), open: 'qwen3-30b-a3b' },
  starting: { agent: withServices([starting]), open: 'gemma-3-12b' },
  draining: { agent: withServices([stopping]), open: 'smollm-360m' },
  crash: { agent: withCrashLines, open: 'mistral-small' },
  'crash-lines': {
    agent: withCrashLines,
    open: 'mistral-small',
    unfold: ['Last 6 lines before the crash'],
    height: 980,
  },
  'crash-over': { agent: withEarlierCrash, open: 'phi-4-mini', height: 980 },
  work: { agent: working, open: 'phi-4-mini', height: 1_400 },
  'does-not-fit': { agent: withWays([]), open: 'llama-70b', height: 980 },
  'evicted-for-it': {
    agent: withWays([{ outcome: 'done', message: 'default/llama-3.3-70b is evicted until it is brought back.' }]),
    open: 'llama-70b',
    press: ['Evict llama-3.3-70b'],
  },
  delete: { agent: withDeletion([]), open: 'phi-4-mini', press: ['Delete phi-4-mini…'] },
  add: { agent: withFit(), add: '', height: 980 },
  'add-files': { agent: withFit(chooseFile), add: 'hf://bartowski/Qwen_Qwen3-30B-A3B-GGUF' },
  'add-fits': { agent: withFit(fitting), add: 'phi-4-mini', height: 1_280 },
  'add-does-not-fit': { agent: withFit(misfitting), add: 'llama-3.3-70b', height: 1_600 },
  'add-refused': {
    agent: withFit(fitting, [refusedAddition]),
    add: 'phi-4-mini',
    fill: { Name: 'phi' },
    press: ['Add'],
    height: 980,
  },
  'add-unknown': { agent: fitUnknown, add: 'hf://nobody/nothing' },
  'add-secret': {
    agent: fitWithoutSecret,
    add: 'hf://team/private',
    fill: { 'Secret with the token': 'hf-team' },
    press: ['Look it up'],
  },
  'add-wide': { agent: withFit(fitting), add: 'phi-4-mini', width: 1_100, height: 760 },
  'add-large-text': { agent: withFit(misfitting), add: 'llama-3.3-70b', textScale: 2 },
  'delete-managed': { agent: withDeletion([argo]), open: 'phi-4-mini', press: ['Delete phi-4-mini…'] },
  evicted: { agent: withServices([evicted]), open: 'deepseek-r1-8b' },
  'other-machine': { agent: withServices(every), open: 'codestral' },
  models: { agent: withModels, view: 'models', height: 980 },
  'models-delete': {
    agent: withModels,
    view: 'models',
    press: ['Delete smollm-360m', 'Delete unused models…'],
    height: 980,
  },
  activity: { agent: withHistory, view: 'activity', height: 980 },
  'activity-answered': {
    agent: withHistory,
    view: 'activity',
    press: ['Bring back'],
    then: (agent) =>
      agent.answer({ outcome: 'done', message: 'default/deepseek-r1-8b may be served by this machine again.' }),
    height: 980,
  },
  energy: { agent: weekOfEnergy, view: 'activity', height: 980 },
  'energy-service': {
    agent: weekOfEnergy,
    view: 'activity',
    press: ['Show phi-4-mini in the bars'],
    width: 700,
    height: 980,
  },
  'energy-off': { agent: energyOff, view: 'activity' },
  'energy-empty': { agent: noEnergyYet, view: 'activity' },
  'energy-tokens': { agent: tokensOnly, view: 'activity', height: 760 },
  settings: { agent: withSettings, view: 'settings', height: 1_400 },
  'settings-all': { agent: withSettings, view: 'settings', at: 'Models', height: 1_800 },
  'settings-start': { agent: withStartFile, view: 'settings', unfold: ['Why not here'], at: 'Network', height: 1_400 },
  'settings-power-rule': {
    agent: withSettings,
    view: 'settings',
    unfold: ['What sudo would allow'],
    at: 'Power',
    height: 1_400,
  },
  'settings-uninstall': {
    agent: withSettings,
    view: 'settings',
    at: 'General',
    press: ['Uninstall Metalbar…'],
    height: 1_800,
  },
  'settings-large-text': { agent: withSettings, view: 'settings', at: 'General', height: 1_400, textScale: 2 },
  'settings-changed': {
    agent: withSettings,
    view: 'settings',
    fill: { 'Time for requests to finish': 'soon' },
    at: 'Runtimes',
    height: 980,
  },
  'settings-conflict': {
    agent: withSettings,
    view: 'settings',
    fill: { 'Time for requests to finish': '45s' },
    at: 'Runtimes',
    then: setElsewhere,
    height: 1_800,
  },
  'settings-memory': {
    agent: withPreview,
    view: 'settings',
    fill: { 'Part of memory for models': '0.4' },
    at: 'Memory',
    height: 1_400,
  },
  'settings-memory-large-text': {
    agent: withPreview,
    view: 'settings',
    fill: { 'Part of memory for models': '0.4' },
    height: 980,
    textScale: 2,
  },
  hold: { agent: withServices([held]), open: 'nomic-embed' },
  'stop-pending': { agent: withServices([ready]), open: 'phi-4-mini', press: ['Stop'] },
  'stop-refused': { agent: answering([refusal]), open: 'phi-4-mini', press: ['Stop'] },
  'stop-unknown': {
    agent: answering([new LinkError('gone', 'The agent went away before it answered.')]),
    open: 'phi-4-mini',
    press: ['Stop'],
  },
  stale: { agent: withServices(every), then: (agent) => agent.leave() },
  'cluster-away': {
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          services: [ready, held],
          cluster: {
            ...cluster,
            state: 'stale',
            message: 'The API server at https://10.0.0.1:6443 does not answer: connection refused.',
            since: '2026-01-02T03:02:05.000Z',
            retryAt: '2026-01-02T03:04:17.000Z',
          },
        }),
      ),
  },
  'held-after-panic': {
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          services: [ready],
          panicFuse: {
            state: 'held',
            since: '2026-01-02T03:00:00.000Z',
            message:
              'This machine ended with a kernel panic while models ran: models that need more than half of the memory budget are not started until you say so. Waiting: default/llama-70b.',
          },
          supply: { source: 'battery', charge: 0.84, lowPowerMode: true, isPaused: false, isKeptAwake: false },
        }),
      ),
  },
  paused: {
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          services: [paused],
          host: { ...sampleSnapshot().host, paused: true },
          notices: ['There is no Metal on this machine: models run on its processors.'],
        }),
      ),
  },
  'no-address': {
    agent: () => {
      const { address: _address, ...host } = sampleSnapshot().host
      const message = 'No address of this machine can be reached from a cluster: choose one with --host-ip.'
      return new FakeAgent(sampleSnapshot({ services: [ready], host: { ...host, message } }))
    },
  },
  'long-names': { agent: withServices([longest, ready]) },
  'long-names-detail': { agent: withServices([longest]), open: longest.name },
  'settings-production': { agent: withSettings, view: 'settings', press: ['Serve prod-eu'], height: 980 },
  'large-text': { agent: withServices(every), textScale: 2 },
  'large-text-detail': { agent: withServices([crashing]), open: 'mistral-small', textScale: 2 },
  'large-text-models': { agent: withModels, view: 'models', height: 1_600, textScale: 2 },
  'large-text-activity': { agent: withHistory, view: 'activity', height: 1_600, textScale: 2 },
  'large-text-settings': { agent: withSettings, view: 'settings', height: 1_600, textScale: 2 },
  'large-text-first-run': { agent: onFirstRun(), height: 1_600, textScale: 2 },
}
