import { describe, expect, test } from 'vitest'
import type { AgentView } from '../../../src/main/agent-view.ts'
import { iconOf } from '../../../src/main/icon.ts'
import { menuOf, type MenuEntry } from '../../../src/main/menu.ts'
import type { Progress, ServiceView } from '../../../src/contract/service.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

function view(services: readonly Partial<ServiceView>[], changes: Partial<AgentView> = {}): AgentView {
  const snapshot = sampleSnapshot({
    services: services.map((service, index) => sampleService({ uid: `uid-${index}`, ...service })),
  })
  return { snapshot, problem: '', isHere: true, isQuitting: false, isMac: false, answer: undefined, ...changes }
}

const cluster = (state: 'live' | 'stale' | 'offline', message = '') => ({
  snapshot: sampleSnapshot({ cluster: { ...sampleSnapshot().cluster, state, message } }),
})

/** As a person reads it: what cannot be chosen is in brackets, what lies below is indented. */
function lines(entries: readonly MenuEntry[], indent = ''): string[] {
  return entries.flatMap((entry) => {
    if (entry.kind === 'separator') return [`${indent}-`]
    const { label, deed, entries: below } = entry
    const text = deed === undefined && below === undefined ? `(${label})` : label
    return [`${indent}${text}`, ...lines(below ?? [], `${indent}  `)]
  })
}

describe('the icon', () => {
  test.for<[string, AgentView]>([
    ['idle', view([])],
    ['idle', view([{ state: 'stopped' }])],
    ['idle', view([{ state: 'foreign' }])],
    ['loading', view([{ state: 'fetching' }, { state: 'ready' }])],
    ['loading', view([{ state: 'starting' }])],
    ['serving', view([{ state: 'ready' }, { state: 'stopped' }])],
    ['attention', view([{ state: 'crash-looping' }, { state: 'ready' }])],
    ['attention', view([{ state: 'refused' }])],
    ['attention', view([{ state: 'unready' }])],
    ['attention', view([{ state: 'ready', reason: 'ClusterDisagrees' }])],
    ['disconnected', view([], cluster('stale'))],
    ['disconnected', view([], cluster('offline'))],
    ['disconnected', view([], { snapshot: undefined, problem: 'No agent runs.' })],
  ])('is %s (%#)', ([name, shown]) => {
    expect(iconOf(shown).name).toBe(name)
  })

  test('says in words what its shape says', () => {
    const shown = view([{ state: 'ready' }, { name: 'llama', state: 'refused', message: 'It does not fit.' }])
    expect(iconOf(shown).tooltip).toBe(
      'Metalbar\nServing 1 model · 1 in trouble\nlab (default) · Live\nllama: It does not fit.',
    )
  })
})

describe('the menu', () => {
  const power = (state: 'idle' | 'failed', source = 'powermetrics') => ({
    snapshot: sampleSnapshot({ power: { state, message: '', source } }),
  })
  test.for<[string, Partial<AgentView>, boolean]>([
    ['power is off on a Mac', { isMac: true }, true],
    ['power is off elsewhere', {}, false],
    ['sudo lacks the rule', power('failed'), true],
    ['macmon fails, which needs none', power('failed', 'macmon'), false],
    ['power is on', power('idle'), false],
    ['there is no agent', { isMac: true, snapshot: undefined }, false],
  ])('where %s it offers to measure power: %s', ([, changes, isOffered]) => {
    expect(lines(menuOf(view([], changes))).includes('Measure power…')).toBe(isOffered)
  })

  test.for<[string, Partial<ServiceView>, string[]]>([
    [
      'ready',
      { state: 'ready' },
      ['● qwen   Ready', '  (Serves requests.)', '  -', '  Stop', '  Restart', '  Evict from memory', '  Protect'],
    ],
    [
      'starting',
      { state: 'starting' },
      ['◐ qwen   Starting', '  (Serves requests.)', '  -', '  Stop', '  Restart', '  Evict from memory', '  Protect'],
    ],
    [
      'fetching',
      { state: 'fetching' },
      ['◐ qwen   Downloading 42 %', '  (Serves requests.)', '  -', '  Cancel download', '  Stop'],
    ],
    ['stopped', { state: 'stopped' }, ['○ qwen   Stopped', '  (Serves requests.)', '  -', '  Start']],
    ['stopping', { state: 'stopping' }, ['◌ qwen   Stopping', '  (Serves requests.)']],
    ['foreign', { state: 'foreign' }, ['◇ qwen   On another machine', '  (Serves requests.)']],
  ])('offers for a service that is %s what can be done with it', ([state, changes, expected]) => {
    const shown = view([changes])
    const progress = { doneBytes: 42, totalBytes: 100, bytesPerSecond: 1 }
    const figures = state === 'fetching' ? { 'uid-0': { progress } } : {}
    const entries = menuOf({ ...shown, snapshot: { ...sampleSnapshot(), ...shown.snapshot, figures } })
    expect(lines(entries).slice(3, -3)).toEqual(expected)
  })

  test.for<[string, Progress | undefined, string]>([
    ['has not begun', undefined, ''],
    ['is of unknown size', { doneBytes: 5, bytesPerSecond: 1 }, ''],
    ['is of nothing', { doneBytes: 0, totalBytes: 0, bytesPerSecond: 0 }, ''],
    ['is all but complete', { doneBytes: 996, totalBytes: 1_000, bytesPerSecond: 1 }, ' 99 %'],
    ['is complete', { doneBytes: 1_000, totalBytes: 1_000, bytesPerSecond: 1 }, ' 100 %'],
  ])('shows how far a download is that %s', ([, progress, shown]) => {
    const { snapshot = sampleSnapshot(), ...rest } = view([{ state: 'fetching' }])
    const figures = progress && { 'uid-0': { progress } }
    expect(lines(menuOf({ ...rest, snapshot: { ...snapshot, ...(figures && { figures }) } }))).toContain(
      `◐ qwen   Downloading${shown}`,
    )
  })

  test('carries out exactly what its label says, on that service', () => {
    const entry = menuOf(view([{ state: 'ready' }])).find((one) => one.kind === 'line' && one.entries !== undefined)
    const deeds = entry?.kind === 'line' ? (entry.entries ?? []).map((one) => one.kind === 'line' && one.deed) : []
    const service = { namespace: 'default', name: 'qwen' }
    expect(deeds).toEqual([
      undefined,
      false,
      { kind: 'command', command: { name: 'stop', service } },
      { kind: 'command', command: { name: 'restart', service } },
      { kind: 'command', command: { name: 'evict', service } },
      { kind: 'command', command: { name: 'protect', service, protect: true } },
    ])
  })

  test('names the namespace where there are several', () => {
    const shown = lines(menuOf(view([{ state: 'stopped' }, { namespace: 'prod', state: 'stopped' }])))
    expect(shown.filter((line) => line.startsWith('○'))).toEqual(['○ default/qwen   Stopped', '○ prod/qwen   Stopped'])
  })

  test('shows why a command was refused, and what would do instead', () => {
    const instead = {
      command: { name: 'stop', service: { namespace: 'default', name: 'qwen' }, scope: 'here' },
    } as const
    const shown = view([], {
      answer: {
        outcome: 'refused',
        by: 'cluster',
        message: 'The cluster refused it: forbidden.',
        instead: { ...instead, label: 'Stop it on this machine only' },
      },
    })
    expect(lines(menuOf(shown))).toEqual([
      '(Serving no model)',
      '(lab (default) · Live)',
      '-',
      '(The cluster refused it: forbidden.)',
      'Stop it on this machine only',
      '-',
      'Open Metalbar',
      'Quit: drain and stop',
    ])
  })

  test.for<[string, Partial<AgentView>, string[]]>([
    [
      'no agent answers',
      { snapshot: undefined, problem: 'No agent runs on the state folder.' },
      ['(No agent runs on the state folder.)', '-', 'Open Metalbar', 'Quit: drain and stop'],
    ],
    [
      'the cluster is away',
      cluster('offline', 'The API server does not answer.'),
      [
        '(Serving 1 model)',
        '(lab (default) · Offline: The API server does not answer.)',
        '-',
        '● qwen   Ready',
        '  (Serves requests.)',
        '  -',
        '  Stop',
        '  Restart',
        '  Evict from memory',
        '  Protect',
        '-',
        'Open Metalbar',
        'Quit: drain and stop',
      ],
    ],
    [
      'the agent is another program',
      { snapshot: sampleSnapshot({ services: [] }), isHere: false },
      ['(Serving no model)', '(lab (default) · Live)', '-', 'Open Metalbar', 'Quit: the agent runs on'],
    ],
    [
      'it quits',
      { snapshot: sampleSnapshot({ services: [] }), isQuitting: true },
      ['(Stopping: requests in flight may finish)', '(lab (default) · Live)', '-', 'Open Metalbar'],
    ],
  ])('says so when %s', ([, changes, expected]) => {
    expect(lines(menuOf(view([], changes)))).toEqual(expected)
  })

  test('cuts a sentence that would make it as wide as the screen', () => {
    const shown = (length: number) => lines(menuOf(view([], { snapshot: undefined, problem: 'x'.repeat(length) })))[0]
    expect([shown(90), shown(91), shown(500)]).toEqual([
      `(${'x'.repeat(90)})`,
      `(${'x'.repeat(89)}…)`,
      `(${'x'.repeat(89)}…)`,
    ])
  })
})
