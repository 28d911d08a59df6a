import { expect, test } from 'vitest'
import type { ServiceState } from '../../../src/contract/service.ts'
import { rest } from '../../../src/agent-core/reconcile/plan/observation.ts'
import type { ServiceReport } from '../../../src/agent-core/reconcile/service-report.ts'
import { figuresOf, serviceViewOf, stepsOf } from '../../../src/agent-core/agent/snapshot-views.ts'
import { wallTimeOf } from '../../../src/agent-core/util/steady-clock.ts'

const at = 1_000_000

test.each<[state: ServiceState, shown: string | undefined]>([
  ['unready', wallTimeOf(at).toISOString()],
  ['crash-looping', wallTimeOf(at).toISOString()],
  ['ready', undefined],
])('when a service that is %s is looked at again is shown only where a person waits for it', (state, shown) => {
  expect(serviceViewOf(reportOf(state)).retryAt).toBe(shown)
})

test('the URL is the one of the Service that this machine published, and absent where there is none', () => {
  const url = (service: string) => serviceViewOf(reportOf('ready', service)).url
  expect([url('ours'), url('absent'), url('taken')]).toEqual([
    'http://a-b.ns.svc.cluster.local:8080',
    undefined,
    undefined,
  ])
})

test('a share of the memory is told where it is more than what was measured', () => {
  const report = { ...reportOf('ready'), fetch: {} } as ServiceReport
  const nothing = () => undefined
  const figures = (measured?: number, held?: number) => {
    const of = (bytes?: number) => new Map(bytes === undefined ? [] : [['ns/a.b', bytes]])
    const memory = { held: () => of(held), view: { footprints: of(measured) } }
    const others = { figures: { view: nothing }, energy: { shareWatts: nothing } }
    return figuresOf([report], { memory, ...others, gateway: undefined } as unknown as Parameters<typeof figuresOf>[1])
  }
  expect([figures(5, 7), figures(8, 7), figures()]).toEqual([
    { a: { footprintBytes: 5, heldBytes: 7 } },
    { a: { footprintBytes: 8 } },
    {},
  ])
})

function reportOf(state: ServiceState, service = 'ours'): ServiceReport {
  const publication = { claim: 'ours', message: '', service, serviceMessage: '', complete: true, present: true }
  const observed = { fetch: { kind: 'none' }, server: { kind: 'none' }, publication }
  const report = { key: 'ns/a.b', namespace: 'ns', name: 'a.b', uid: 'a', since: 0, failures: 0, restarts: 0, observed }
  return { ...report, plan: rest(state, 'Serving', 'Serving.', at) } as unknown as ServiceReport
}

test.each([
  ['while its process is being started', false, { started: { status: 'active' }, healthy: { status: 'waiting' } }],
  ['once its process runs', true, { started: { status: 'done' }, healthy: { status: 'active', message: 'Loading.' } }],
])('a server is at one step at a time: %s', (_, hasProcess, expected) => {
  const steps = stepsOf(
    {
      fetch: { kind: 'done', source: 'https://models.example/a.gguf' },
      server: { kind: 'starting', digest: 'd1', failures: 0, message: 'Loading.' },
      publication: {
        claim: 'ours',
        message: '',
        retryAt: undefined,
        service: 'ours',
        serviceMessage: '',
        shown: undefined,
        complete: true,
        present: true,
      },
      clusterRetry: undefined,
    },
    undefined,
    undefined,
    hasProcess,
  )
  expect(steps).toEqual({
    fetched: { status: 'done' },
    published: { status: 'waiting' },
    clusterAgrees: { status: 'waiting' },
    ...expected,
  })
})
