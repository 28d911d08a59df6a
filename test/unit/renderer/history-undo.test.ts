import { expect, test } from 'vitest'
import type { HistoryEntry } from '../../../src/contract/queries.ts'
import type { ServiceView } from '../../../src/contract/service.ts'
import { undosOf } from '../../../src/renderer/history.ts'
import { activityWords } from '../../../src/renderer/words/activity.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

const at = '2026-01-02T03:04:05.000Z'
const service = { namespace: 'default', name: 'qwen' }
const of = (id: number, change: Partial<HistoryEntry>): HistoryEntry => ({
  ...{ id, at, kind: 'settingsChanged', message: 'It happened.' },
  ...change,
})
const held = sampleService({ state: 'stopped', hold: { cause: 'evicted', since: at, message: 'Evicted.' } })
const protect = { name: 'protect', service, protect: false } as const
const memory = (isProtected: boolean): Partial<ServiceView> => ({ memory: { priority: 'normal', isProtected } })

interface Case {
  readonly entries: readonly HistoryEntry[]
  readonly services?: ServiceView[]
  readonly isPaused?: boolean
  readonly trust?: 'page' | 'shell'
}

/** Id and word of each entry that can be taken back. */
function words({ entries, services = [], isPaused = false, trust = 'shell' }: Case): [number, string][] {
  const { host } = sampleSnapshot()
  const undos = undosOf(entries, { snapshot: { services, host: { ...host, paused: isPaused } }, trust })
  return [...undos].map(([id, command]) => [id, activityWords.undo(command)])
}

const address = (id: number, back: 'automatic' | '10.0.0.1') =>
  of(id, { undo: { name: 'setHostAddress', address: back } })
const fraction = (id: number, memoryFraction: number | null) =>
  of(id, { undo: { name: 'updateSettings', settings: { memoryFraction } } })
const both = of(7, { undo: { name: 'updateSettings', settings: { memoryFraction: 0.5, evictionEnabled: true } } })
const paused = of(4, { undo: { name: 'resumeNode' } })
const evicted = of(3, { kind: 'evicted', service })
const stopped = of(5, { kind: 'stopped', service })
const context = of(6, { undo: { name: 'selectContext', context: 'lab', accept: [] } })

test.for<[what: string, asked: Case, undos: [number, string][]]>([
  ['what was evicted comes back', { entries: [evicted], services: [held] }, [[3, 'Bring back']]],
  ['what runs again does not', { entries: [evicted], services: [sampleService()] }, []],
  ['nor what is gone', { entries: [evicted] }, []],
  [
    'of one service only the last is taken back',
    { entries: [stopped, evicted], services: [held] },
    [[5, 'Bring back']],
  ],
  [
    'what started since is not stopped any more by that',
    { entries: [of(9, { kind: 'started', service }), stopped], services: [held] },
    [],
  ],
  ['what was stopped starts', { entries: [stopped], services: [sampleService({ state: 'stopped' })] }, [[5, 'Start']]],
  [
    'protection is taken off',
    { entries: [of(1, { service, undo: protect })], services: [sampleService(memory(true))] },
    [[1, 'Unprotect']],
  ],
  ['once', { entries: [of(1, { service, undo: protect })], services: [sampleService(memory(false))] }, []],
  ['a pause is ended', { entries: [paused], isPaused: true }, [[4, 'Resume']]],
  ['and not twice', { entries: [paused], isPaused: false }, []],
  [
    'only the last address is left again',
    { entries: [address(2, '10.0.0.1'), address(1, 'automatic')] },
    [[2, 'Back to 10.0.0.1']],
  ],
  ['a setting gets its old value', { entries: [fraction(2, 0.75), fraction(1, null)] }, [[2, 'Back to 0.75']]],
  ['or its default', { entries: [fraction(1, null)] }, [[1, 'Back to the default']]],
  ['several at once are set back', { entries: [both] }, [[7, 'Set them back']]],
  ['but not over a later change of one of them', { entries: [fraction(8, null), both] }, [[8, 'Back to the default']]],
  ['the context before is chosen in the app', { entries: [context] }, [[6, 'Back to lab']]],
  ['and not by a page', { entries: [context], trust: 'page' }, []],
])('%s', ([, asked, undos]) => {
  expect(words(asked)).toEqual(undos)
})
