import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { StayAwake, type StayAwakeOptions } from '../../../src/agent-core/power/stay-awake.ts'
import type { ServerListener } from '../../../src/agent-core/servers/servers.ts'
import type { Use } from '../../../src/agent-core/servers/poller.ts'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import { Recorder } from '../../support/running-agent.ts'
import { silentLog } from '../../support/silent-log.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const ready: ServerState = { kind: 'ready', since: 0, readySince: 0, pid: 1, port: 8080, healthy: true }
const loading: ServerState = { kind: 'loading', since: 0, pid: 1, port: 8080 }
const counted = {
  key: 'a/b',
  run: 'r',
  pid: 1,
  port: 8080,
  isWell: true,
  digest: 'd',
  isFound: false,
} as const

/** One server whose state and requests a test decides, and what becomes of the system meanwhile. */
function machine(options: Partial<StayAwakeOptions> & { readonly sleepsWhenIdle?: boolean } = {}) {
  const { sleepsWhenIdle = false, ...rest } = options
  const facts = { state: ready, requests: 0, connections: 0, isWorking: true, holds: 0, endsAtOnce: false, asked: 0 }
  let listener: ServerListener = () => undefined
  const look = (): Promise<Use> => {
    facts.asked += 1
    const seen = { work: undefined, idleForMs: 0 }
    return Promise.resolve(
      sleepsWhenIdle
        ? { ...seen, answer: 'notAsked', requests: facts.connections }
        : { ...seen, answer: 'counted', requests: facts.requests },
    )
  }
  const awake = new StayAwake({
    policy: () => 'while-serving',
    mayOnBattery: () => true,
    source: () => 'mains',
    servers: {
      state: () => new Map([['a/b', facts.state]]),
      counted: () => (facts.state.kind === 'ready' ? [{ ...counted, sleepsWhenIdle, look }] : []),
      onChange: (heard) => {
        listener = heard
        return () => undefined
      },
    },
    working: { has: () => Promise.resolve(facts.isWorking), keepOnly: () => undefined },
    hold: () => {
      facts.holds += 1
      let isHeld = !facts.endsAtOnce
      return {
        get isHeld() {
          return isHeld
        },
        release: () => (isHeld = false),
      }
    },
    log: silentLog,
    onChange: () => undefined,
    ...rest,
  })
  const become = (state: ServerState) => {
    facts.state = state
    listener('a/b', state)
  }
  return { facts, awake, become }
}

const messagesIn = ({ infos }: Recorder): string[] => infos.map(({ message }) => message)

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('it is held from the moment in which a model loads until five seconds after, at the most', async () => {
  const { awake, become } = machine()
  await pass(100)
  expect(awake.isKeptAwake).toBe(false)
  become(loading)
  await pass(0)
  expect(awake.isKeptAwake).toBe(true)
  become(ready)
  await pass(5_000)
  expect(awake.isKeptAwake).toBe(false)
})

test.each([
  ['as its server counts them', {}, 'requests'],
  ['by its connections, where a look would count as use', { sleepsWhenIdle: true }, 'connections'],
] as const)('it is held while requests run, %s', async (_how, options, figure) => {
  const { awake, facts } = machine(options)
  facts[figure] = 1
  await pass(20_000)
  expect(awake.isKeptAwake).toBe(true)
  await pass(600_000)
  expect([awake.isKeptAwake, facts.holds]).toEqual([true, 1])
  facts[figure] = 0
  await pass(5_000)
  expect(awake.isKeptAwake).toBe(false)
})

test('a connection that is kept open without any work does not hold it, nor lets it hang on the supply', async () => {
  const { awake, facts } = machine({ sleepsWhenIdle: true, mayOnBattery: () => false })
  facts.connections = 1
  facts.isWorking = false
  await pass(60_000)
  const idle = [awake.isKeptAwake, awake.dependsOnSupply]
  facts.isWorking = true
  await pass(20_000)
  expect([idle, awake.isKeptAwake, awake.dependsOnSupply]).toEqual([[false, false], true, true])
})

test.each<[string, Partial<StayAwakeOptions>]>([
  ['never', { policy: () => 'never' }],
  ['on battery where only mains count', { mayOnBattery: () => false, source: () => 'battery' }],
  ['on a supply that is not known where only mains count', { mayOnBattery: () => false, source: () => undefined }],
  ['where the system has nothing to hold it', { hold: undefined }],
])('it is not held %s, and no server is asked', async (_when, options) => {
  const { awake, become, facts } = machine(options)
  facts.requests = 1
  become(loading)
  become(ready)
  await pass(60_000)
  expect([awake.isKeptAwake, facts.holds, facts.asked]).toEqual([false, 0, 0])
})

test('while a model is in memory it is held without any request, where a person wants that', async () => {
  const { awake, become, facts } = machine({ policy: () => 'while-loaded' })
  await pass(600_000)
  const loaded = [awake.isKeptAwake, facts.holds, facts.asked]
  become({ kind: 'failedToSpawn', since: 0, message: '', failures: 1 })
  await pass(5_000)
  expect([loaded, awake.isKeptAwake]).toEqual([[true, 1, 0], false])
})

test('it is let go when the plug is pulled, and held again on mains', async () => {
  let source: 'mains' | 'battery' = 'mains'
  const { awake, facts } = machine({ mayOnBattery: () => false, source: () => source })
  facts.requests = 1
  await pass(20_000)
  source = 'battery'
  awake.review()
  await pass(0)
  expect(awake.isKeptAwake).toBe(false)
  source = 'mains'
  awake.review()
  await pass(0)
  expect(awake.isKeptAwake).toBe(true)
})

test('what cannot be begun is told once, and tried again after a minute, until it can be', async () => {
  const log = new Recorder()
  let tries = 0
  let isBroken = true
  const hold = () => {
    tries += 1
    if (isBroken) throw new Error('EMFILE')
    return { isHeld: true, release: () => undefined }
  }
  const { awake, facts } = machine({ hold, log })
  facts.requests = 1
  await pass(20_000 + 3 * 60_000)
  expect([tries, messagesIn(log), awake.isKeptAwake]).toEqual([4, ['not kept awake'], false])
  isBroken = false
  await pass(62_000)
  expect([awake.isKeptAwake, messagesIn(log).at(-1)]).toEqual([true, 'kept awake while models work'])
})

test('what ends at once is told once as failed and never as held, and a pause between requests does not forget it', async () => {
  const log = new Recorder()
  const { awake, facts } = machine({ log })
  facts.endsAtOnce = true
  facts.requests = 1
  await pass(30_000)
  facts.requests = 0
  awake.review()
  await pass(1_000)
  facts.requests = 1
  awake.review()
  await pass(20_000)
  expect(facts.holds).toBe(1)
  await pass(600_000)
  expect(messagesIn(log)).toEqual(['not kept awake'])
})

test('the end of the agent lets it go', async () => {
  const { awake, facts } = machine()
  facts.requests = 1
  await pass(20_000)
  await awake[Symbol.asyncDispose]()
  expect(awake.isKeptAwake).toBe(false)
  await pass(120_000)
  expect(facts.holds).toBe(1)
})
