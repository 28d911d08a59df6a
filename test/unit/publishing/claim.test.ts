import { describe, expect, test } from 'vitest'
import { type ClaimFacts, judgeClaim } from '../../../src/agent-core/publishing/claim.ts'
import { claimText, parseClaim } from '../../../src/agent-core/publishing/objects.ts'
import type { EndpointSlice } from '../../../src/agent-core/kube/resources.ts'
import { publication, sliceOf, target } from './examples.ts'

const facts: ClaimFacts = {
  self: 'node-a',
  target,
  last: undefined,
  silentMs: 0,
}
const ours = sliceOf(publication)
const theirs = sliceOf({ ...publication, claim: { node: 'node-b', epoch: 5, heartbeat: publication.heartbeat } })
const last = { uid: ours.metadata.uid, epoch: 3, heartbeat: publication.heartbeat }
const elsewhere = { address: '192.0.2.7', port: 1, ready: true }
const unclaimed = annotated(ours, { 'metalbar.dev/claim': undefined })

describe('whose slice it is', () => {
  test.each<[string, EndpointSlice | undefined, Partial<ClaimFacts>, object]>([
    ['no slice', undefined, {}, { kind: 'absent' }],
    ['ours as we wrote it', ours, {}, { kind: 'ours', epoch: 3 }],
    [
      "ours with somebody else's heartbeat",
      annotated(ours, { 'llmkube.ai/agent-heartbeat': '2026-11-21T10:00:30Z' }),
      {},
      { kind: 'overwritten', holder: 'the agent at 192.0.2.7', deadInMs: 180_000 },
    ],
    ['ours, with another port by hand', sliceOf({ ...publication, published: elsewhere }), {}, { kind: 'ours' }],
    ['ours without its heartbeat', annotated(ours, { 'llmkube.ai/agent-heartbeat': undefined }), {}, { kind: 'ours' }],
    ['ours, from which somebody took the claim', unclaimed, { last }, { kind: 'ours', epoch: 3 }],
    ['made again by hand without a claim', unclaimed, { last: { ...last, uid: 'other' } }, { kind: 'unclaimed' }],
    [
      'ours, which an agent that knows no claims replaced whole',
      unclaimed,
      { last: { ...last, heartbeat: '2026-11-21T09:00:00Z' } },
      { kind: 'unclaimed' },
    ],
    [
      'ours, made for an InferenceService that is gone',
      ours,
      { target: { ...target, uid: 'cr-2' } },
      { kind: 'previous' },
    ],
    ['ours without its owner', sliceOf(publication, { ownerReferences: [] }), {}, { kind: 'ours' }],
    ['released', sliceOf({ ...publication, published: undefined, claim: undefined }), {}, { kind: 'released' }],
    [
      'released, and made ready by no agent',
      sliceOf({ ...publication, claim: undefined }),
      {},
      { kind: 'dead', epoch: 0, ready: true },
    ],
    [
      'released, and ready again with a heartbeat of another agent',
      annotated(sliceOf({ ...publication, claim: undefined }), {
        'llmkube.ai/agent-heartbeat': '2026-11-21T10:00:30Z',
      }),
      {},
      { kind: 'unclaimed' },
    ],
    ['of another node', theirs, {}, { kind: 'foreign', holder: 'node-b', deadInMs: 180_000 }],
    ['of another node, silent for a while', theirs, { silentMs: 170_000 }, { kind: 'foreign', deadInMs: 10_000 }],
    ['of another node, silent for 180 s', theirs, { silentMs: 180_000 }, { kind: 'dead', epoch: 5, ready: true }],
    ['without a claim', unclaimed, {}, { kind: 'unclaimed', holder: 'the agent at 192.0.2.7' }],
    ['without a claim and silent', unclaimed, { silentMs: 180_000 }, { kind: 'dead', epoch: 0 }],
    ['with a claim that is no JSON', annotated(ours, { 'metalbar.dev/claim': '{' }), {}, { kind: 'unclaimed' }],
    [
      'of another InferenceService',
      ours,
      { target: { ...target, name: 'lla.ma' } },
      {
        kind: 'taken',
        message:
          'EndpointSlice ml/llama belongs to InferenceService llama, whose name maps to the same Service; rename one of the two.',
      },
    ],
    [
      'of nobody we know',
      sliceOf(publication, { labels: {}, ownerReferences: [] }),
      { silentMs: 1e9 },
      { kind: 'taken' },
    ],
    ['ours whose labels were taken away', sliceOf(publication, { labels: {} }), {}, { kind: 'ours' }],
  ])('%s', (_, slice, change, expected) => {
    expect(judgeClaim(slice, { ...facts, ...change })).toMatchObject(expected)
  })

  test('overwriting asks for an allowlist', () => {
    const overwritten = annotated(ours, { 'llmkube.ai/agent-heartbeat': '2026-11-21T10:00:30Z' })
    expect(judgeClaim(overwritten, facts)).toMatchObject({
      message:
        'InferenceService ml/llama is claimed here but the agent at 192.0.2.7, which does not know about claims, overwrote it; this machine takes over when that agent has been silent for 180 s. Leave llama out of its --inference-service-allowlist.',
    })
  })

  test('a holder is called by the name people gave its machine', () => {
    const named = sliceOf({
      ...publication,
      claim: { node: 'node-b', epoch: 5, heartbeat: publication.heartbeat, displayName: 'mini' },
    })
    expect(judgeClaim(named, facts)).toMatchObject({
      message:
        'InferenceService ml/llama is served by mini; this machine takes over when that agent has been silent for 180 s.',
    })
  })
})

test('a claim survives its annotation', () => {
  const claim = { node: 'node-a', epoch: 3, heartbeat: '2026-11-21T10:00:00Z', displayName: 'studio' }
  const released = { heartbeat: claim.heartbeat, releasedBy: claim.node }
  const texts = [claimText(claim), claimText(released)]
  expect(texts.map(parseClaim)).toEqual([claim, released])
})

test.each([
  ['no annotation', undefined],
  ['an array', '[]'],
  ['a stranger’s object', '{"a":1}'],
  ['text', 'mine'],
])('%s is no claim', (_, text) => {
  expect(parseClaim(text)).toBeUndefined()
})

function annotated(slice: EndpointSlice, change: Record<string, string | undefined>): EndpointSlice {
  const annotations = Object.fromEntries(
    Object.entries({ ...slice.metadata.annotations, ...change }).flatMap(([key, value]) =>
      value === undefined ? [] : [[key, value]],
    ),
  )
  return { ...slice, metadata: { ...slice.metadata, annotations } }
}
