import { describe, expect, test } from 'vitest'
import type { AgentView } from '../../../src/main/agent/agent-view.ts'
import { iconOf } from '../../../src/main/tray/icon.ts'
import { type MenuAction, type MenuEntry, nameWithin, templateOf } from '../../../src/main/tray/menu-entries.ts'
import { menuOf } from '../../../src/main/tray/menu.ts'
import { cleanText } from '../../../src/contract/clean-text.ts'
import { looksLikeProduction } from '../../../src/contract/cluster.ts'
import type { ServiceView } from '../../../src/contract/service.ts'
import { menuScenes } from '../../support/menu-scenes.ts'
import { sampleView } from '../../support/sample-view.ts'
import { menuText } from '../../support/menu-text.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

const scenes = Object.entries(menuScenes)

function view(services: readonly Partial<ServiceView>[], changes: Partial<AgentView> = {}): AgentView {
  const all = services.map((service, index) => sampleService({ uid: `uid-${index}`, ...service }))
  return sampleView({ snapshot: sampleSnapshot({ services: all }), ...changes })
}

const cluster = (state: 'stale' | 'offline') => ({
  snapshot: sampleSnapshot({ cluster: { ...sampleSnapshot().cluster, state } }),
})

/** Every line of a menu, however deep. */
const all = (entries: readonly MenuEntry[]): Extract<MenuEntry, { kind: 'line' }>[] =>
  entries.flatMap((entry) => (entry.kind === 'line' ? [entry, ...all(entry.entries ?? [])] : []))

/** What concerns the machine and the app, which is the same in most states. */
const tailOf = (shown: AgentView): string => {
  const text = menuText(menuOf(shown)).join('\n')
  return text.slice(text.indexOf('\nContext\n') + 1)
}

describe('the icon', () => {
  test.for<[string, AgentView]>([
    ['idle', view([])],
    ['idle', view([{ state: 'stopped' }])],
    ['idle', view([{ state: 'foreign' }])],
    ['idle', menuScenes['paused'] ?? view([])],
    ['loading', view([{ state: 'fetching' }, { state: 'ready' }])],
    ['loading', view([{ state: 'starting' }])],
    ['serving', view([{ state: 'ready' }, { state: 'stopped' }])],
    ['attention', view([{ state: 'crash-looping' }, { state: 'ready' }])],
    ['attention', view([{ state: 'refused' }])],
    ['attention', view([{ state: 'unready' }])],
    ['attention', view([{ state: 'ready', reason: 'ClusterDisagrees' }])],
    ['attention', view([{ state: 'waiting', reason: 'InsufficientMemory' }])],
    ['attention', menuScenes['memory is short, and a model is in trouble'] ?? view([])],
    ['pressure', menuScenes['memory is critically short'] ?? view([])],
    ['pressure', menuScenes['memory is short'] ?? view([])],
    ['disconnected', view([], cluster('stale'))],
    ['disconnected', view([], cluster('offline'))],
    ['disconnected', view([], { snapshot: undefined, problem: 'No agent runs.' })],
  ])('is %s (%#)', ([name, shown]) => {
    expect(iconOf(shown).name).toBe(name)
  })
})

describe('the menu', () => {
  test('and the icon are in every state as they were agreed on', async () => {
    const usual = tailOf(sampleView())
    const text = scenes.map(([name, scene]) => {
      const menu = menuText(menuOf(scene)).join('\n')
      const { name: shape, title, tooltip } = iconOf(scene)
      const icon = [`[${shape}]`, ...(title === '' ? [] : [title])].join(' ')
      return [
        `# ${name}`,
        icon,
        ...tooltip.split('\n').map((line) => `> ${line}`),
        menu.replace(usual, '(and all else as usual)'),
        '',
      ].join('\n')
    })
    await expect(text.join('\n')).toMatchFileSnapshot('./menus.txt')
  })

  test.for(scenes)('can be read and drawn: %s', ([, scene]) => {
    const entries = menuOf(scene)
    const lines = all(entries)
    expect({
      unclean: lines.filter(({ label, toolTip = '' }) => cleanText(label) !== label || cleanText(toolTip) !== toolTip),
      tooWide: lines.filter(({ label }) => label.length > 110),
      empty: lines.filter(({ label }) => label.trim() === ''),
      stray: [entries[0], entries.at(-1)].filter((entry) => entry?.kind === 'separator'),
      isTooLong: entries.length > 40,
    }).toEqual({ unclean: [], tooWide: [], empty: [], stray: [], isTooLong: false })
  })

  test('tells one figure of what does not fit: the one that its sentence has', () => {
    const [entry] = all(menuOf(menuScenes['as the design draws it'] ?? view([]))).filter(({ label }) =>
      label.startsWith('▲'),
    )
    const gigabytes = (text = '') => text.match(/[\d.]+ GB/g)
    const figures = gigabytes(entry?.label)
    expect([figures, gigabytes(all(entry?.entries ?? [])[0]?.label)]).toEqual([['44.0 GB', '21.0 GB'], figures])
  })

  test('carries out exactly what its label says, on that service', () => {
    const service = { namespace: 'default', name: 'qwen' }
    const file = '/state/qwen/output.log'
    const url = 'http://qwen.default.svc:8080'
    const [entry] = menuOf(view([{ state: 'ready', logFile: file, url }])).flatMap((one) =>
      one.kind === 'line' && one.label.startsWith('● qwen') ? [one] : [],
    )
    const actions = all(entry?.entries ?? []).flatMap(({ action }) => (action ? [action] : []))
    expect(actions).toEqual<MenuAction[]>([
      ['command', { name: 'stop', service }],
      ['command', { name: 'restart', service }],
      ['command', { name: 'evict', service }],
      ['command', { name: 'protect', service, protect: true }],
      ['copy', url],
      ['showLog', file],
      ['open', { service: 'uid-0' }],
    ])
  })

  test('offers each context and each address that can be published, under its whole name', () => {
    const commands = all(menuOf(menuScenes['long names'] ?? view([]))).flatMap(({ action }) =>
      action?.[0] === 'command' && ['selectContext', 'setHostAddress'].includes(action[1].name) ? [action[1]] : [],
    )
    const context = (colour: string) => `arn:aws:eks:eu-central-1:123456789012:cluster/${'x'.repeat(60)}-${colour}`
    expect(commands).toEqual([
      { name: 'selectContext', context: context('blue') },
      { name: 'selectContext', context: context('green') },
      { name: 'setHostAddress', address: 'automatic' },
      { name: 'setHostAddress', address: '192.168.1.20' },
      { name: 'setHostAddress', address: '100.64.0.10' },
    ])
  })

  test('offers an address of IPv6, but none that no other machine can reach', () => {
    const found = { interface: 'en0', inUse: false }
    const addresses = [
      { ...found, address: 'fd00::20' },
      { ...found, address: 'fe80::1', unfit: 'no other machine can answer to it' },
    ]
    const shown = sampleView({ hostAddresses: { automatic: true, message: 'None.', addresses } })
    const labels = all(menuOf(shown)).map(({ label }) => label)
    expect(labels.filter((label) => label.includes('::'))).toEqual(['fd00::20   en0'])
  })

  test('is the same for Electron, in which an ampersand has to be doubled to be seen', () => {
    const actions: MenuAction[] = []
    const entries: MenuEntry[] = [
      { kind: 'separator' },
      { kind: 'line', label: 'R&D' },
      {
        kind: 'line',
        label: 'Choose',
        isChecked: true,
        action: ['quit'],
        accelerator: 'Command+Q',
        toolTip: 'Why',
      },
      { kind: 'line', label: 'More', entries: [{ kind: 'line', label: 'Below' }] },
    ]
    const template = templateOf(entries, (action) => actions.push(action))
    expect(template).toEqual([
      { type: 'separator' },
      { label: 'R&&D', enabled: false },
      {
        label: 'Choose',
        enabled: true,
        type: 'checkbox',
        checked: true,
        accelerator: 'Command+Q',
        toolTip: 'Why',
        click: expect.any(Function) as unknown,
      },
      { label: 'More', enabled: true, submenu: [{ label: 'Below', enabled: false }] },
    ])
    const { click } = template[2] as { click: () => void }
    click()
    expect(actions).toEqual([['quit']])
  })
})

test('names are cut in the middle, so that two which end differently stay different', () => {
  expect([nameWithin('short', 9), nameWithin('123456789', 9), nameWithin('1234567890', 9)]).toEqual([
    'short',
    '123456789',
    '1234…7890',
  ])
})

test.for<[string, boolean]>([
  ['prod', true],
  ['prod-eu', true],
  ['eu.Production', true],
  ['gke_company-prd_europe-west1_main', true],
  ['site-live', true],
  ['arn:aws:eks:eu-west-1:1234:cluster/prod2', true],
  ['lab', false],
  ['products', false],
  ['reproduction', false],
  ['olive', false],
  ['non-production', true],
])('the context %s is called production: %s', ([name, expected]) => {
  expect(looksLikeProduction(name)).toBe(expected)
})
