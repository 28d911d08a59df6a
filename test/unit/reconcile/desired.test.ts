import { expect, test } from 'vitest'
import { parseInferenceService, parseModel, type InferenceService } from '../../../src/agent-core/kube/resources.ts'
import type { Hold } from '../../../src/contract/service.ts'
import { desiredOf, runtimeShown, type DesiredInputs } from '../../../src/agent-core/reconcile/desired.ts'

const metadata = (name: string, extra: object = {}) => ({
  name,
  namespace: 'ns',
  uid: name,
  resourceVersion: '1',
  ...extra,
})
const service = (spec: object = {}, extra: object = {}): InferenceService =>
  parseInferenceService({ metadata: metadata('chat', extra), spec: { modelRef: 'm', ...spec } })
const model = (spec: object = {}) =>
  parseModel({ metadata: metadata('m'), spec: { source: '/m.gguf', hardware: { accelerator: 'metal' }, ...spec } })

const hold: Hold = { cause: 'evicted', since: '2026-01-01T00:00:00Z', message: 'Evicted.' }

const usual: DesiredInputs = {
  key: 'ns/chat',
  synced: true,
  service: service(),
  lastSeen: undefined,
  model: model(),
  allowlist: [],
  nameTakenBy: undefined,
  hold: undefined,
  chooseRuntime: () => ({ ok: true, runtime: 'llama-server', runtimeFrom: 'spec.runtime', digest: 'd' }),
}

const stories: readonly (readonly [string, Partial<DesiredInputs>, string])[] = [
  ['a service with a metal Model is served', {}, 'serve'],
  ['nothing is concluded before the caches are complete', { synced: false, service: undefined }, 'unknown'],
  ['an absent object is gone', { service: undefined }, 'gone'],
  [
    'an object under deletion is gone, whoever holds it',
    { service: service({}, { deletionTimestamp: '2026-01-01T00:00:00Z' }) },
    'gone',
  ],
  ['a name outside the allowlist is not ours', { allowlist: ['other'] }, 'excluded'],
  ['a name in the allowlist is', { allowlist: ['other', 'chat'] }, 'serve'],
  ['another accelerator is not ours', { model: model({ hardware: { accelerator: 'cuda' } }) }, 'notOurs'],
  ['no hardware at all means cpu', { model: model({ hardware: undefined }) }, 'notOurs'],
  [
    'another accelerator is not ours even when suspended',
    { service: service({ suspend: true }), model: model({ hardware: { accelerator: 'cpu' } }) },
    'notOurs',
  ],
  ['suspend wins over replicas', { service: service({ suspend: true, replicas: 0 }) }, 'stopped Suspended'],
  ['no replicas stop it', { service: service({ replicas: 0 }) }, 'stopped Stopped'],
  ['a stopped service needs no Model', { service: service({ replicas: 0 }), model: undefined }, 'stopped Stopped'],
  ['what is held back here is not served', { hold }, 'held Held'],
  ['a hold needs no Model', { hold, model: undefined }, 'held Held'],
  [
    'what the cluster stops is stopped, held back or not',
    { hold, service: service({ suspend: true }) },
    'stopped Suspended',
  ],
  ['a hold counts before the caches are complete', { hold, synced: false, service: undefined }, 'held Held'],
  ['a hold of an object that is gone holds nothing', { hold, service: undefined }, 'gone'],
  ['a missing Model is waited for', { model: undefined }, 'modelMissing'],
  ['no reference to a Model is refused', { service: service({ modelRef: '' }), model: undefined }, 'refused Refused'],
  ['a Model without a source is refused', { model: model({ source: '' }) }, 'refused Refused'],
  ['a field out of its range cannot be read', { service: service({ contextSize: 3 }) }, 'unreadable for a Mac'],
  ['nor one of another type', { service: service({ extraArgs: 'x' }) }, 'unreadable for a Mac'],
  ['nor one in a list', { service: service({ extraArgs: ['x', 5] }) }, 'unreadable for a Mac'],
  [
    'nor a Model with a field out of its range',
    { model: model({ hardware: { accelerator: 'metal', gpu: { layers: -5 } } }) },
    'unreadable for a Mac',
  ],
  [
    'a specification that cannot be read of a Model for others is not ours',
    { service: service({ contextSize: 3 }), model: model({ hardware: { accelerator: 'cuda' } }) },
    'notOurs',
  ],
  [
    'nor is a Model for others that cannot be read itself',
    { model: model({ hardware: { accelerator: 'cuda', gpu: { layers: -5 } } }) },
    'notOurs',
  ],
  [
    'without its Model nobody knows whose it is',
    { service: service({ contextSize: 3 }), model: undefined },
    'unreadable',
  ],
  ['nor where the accelerator cannot be read', { model: model({ hardware: { accelerator: 5 } }) }, 'unreadable'],
  ['it can be stopped', { service: service({ contextSize: 3, replicas: 0 }) }, 'stopped Stopped'],
  ['and held back here', { hold, service: service({ contextSize: 3 }) }, 'held Held'],
  ['the second of two names for one Service is refused', { nameTakenBy: 'ch.at' }, 'refused ServiceNameTaken'],
  [
    'a runtime that cannot serve is refused',
    { chooseRuntime: () => ({ ok: false, message: 'No.' }) },
    'refused Refused',
  ],
  [
    'a spec that asks a server for what this machine does not allow is refused by that name',
    {
      chooseRuntime: () => ({ ok: false, reason: 'ExtraArgsRejected', message: 'No.', digest: 'd', loadsCode: true }),
    },
    'refused ExtraArgsRejected',
  ],
  [
    'a missing draft Model is waited for as the Model itself is',
    { chooseRuntime: () => ({ ok: false, draft: 'missing', message: 'No.' }) },
    'modelMissing',
  ],
  [
    'one that cannot be read lets a running server be',
    { chooseRuntime: () => ({ ok: false, draft: 'unreadable', message: 'No.' }) },
    'unreadable for a Mac',
  ],
]

test.each(stories)('%s', (_sentence, facts, kind) => {
  const result = desiredOf({ ...usual, ...facts })
  const more =
    'reason' in result ? ` ${result.reason}` : result.kind === 'unreadable' && result.isForMac ? ' for a Mac' : ''
  expect(`${result.kind}${more}`).toBe(kind)
})

test('a refusal names the object, the field and what to do', () => {
  const result = desiredOf({ ...usual, service: service({ contextSize: 3 }) })
  expect(result).toMatchObject({
    message:
      'InferenceService ns/chat is not usable: spec.contextSize: Too small: expected number to be >=128. Correct it and apply it again.',
  })
})

test('the runtime shown is that of the server that runs, with what chose it where it is the one that is wanted', () => {
  const wanted = { kind: 'serve', runtime: 'mlx-lm', runtimeFrom: '--runtime', source: 's', digest: 'd' } as const
  const stopped = { kind: 'stopped', reason: 'Stopped', message: '' } as const
  expect([
    ...[runtimeShown(undefined, wanted), runtimeShown('mlx-lm', wanted), runtimeShown('llama-server', wanted)],
    ...[runtimeShown('mlx-lm', stopped), runtimeShown(undefined, stopped)],
  ]).toEqual([
    ...[
      { runtime: 'mlx-lm', runtimeFrom: '--runtime' },
      { runtime: 'mlx-lm', runtimeFrom: '--runtime' },
    ],
    ...[{ runtime: 'llama-server' }, { runtime: 'mlx-lm' }, {}],
  ])
})
