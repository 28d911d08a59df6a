import { expect, test } from 'vitest'
import { ClaimMemory } from '../../../src/agent-core/publishing/claim.ts'
import type { EndpointSlice } from '../../../src/agent-core/kube/resources.ts'
import { stateOf } from '../../../src/agent-core/publishing/objects.ts'
import { publication, sliceOf, target } from './examples.ts'

const ours = sliceOf(publication)
const told = stateOf(publication)
const last = { uid: ours.metadata.uid, epoch: 3, heartbeat: publication.heartbeat }

test('a slice that is gone is for ten seconds its holder’s to post again, and nobody’s for an object that was made again', () => {
  const clock = { now: 1_000_000 }
  const memory = memoryAt(clock)
  const theirs = sliceOf({ ...publication, claim: { node: 'node-b', epoch: 4, heartbeat: publication.heartbeat } })
  memory.judge({ slice: theirs, silentMs: 0, isEdited: () => false }, target)
  expect(memory.judgeAbsence({ ...target, uid: 'of the next one' })).toEqual({ kind: 'absent' })
  expect(memory.judgeAbsence(target)).toMatchObject({ kind: 'foreign', holder: 'node-b', deadInMs: 10_000 })
  clock.now += 9_999
  expect(memory.judgeAbsence(target)).toMatchObject({ kind: 'foreign', deadInMs: 1 })
  clock.now += 1
  expect(memory.judgeAbsence(target)).toEqual({ kind: 'absent' })
})

test('a slice that was another agent’s meanwhile is not ours because it lost its claim', () => {
  const memory = memoryAt({ now: 0 })
  memory.wrote(told, last)
  const { 'metalbar.dev/claim': _, ...stripped } = ours.metadata.annotations
  const judge = (slice: EndpointSlice) => memory.judge({ slice, silentMs: 0, isEdited: () => false }, target).kind
  const theirs = sliceOf({ ...publication, claim: { node: 'node-b', epoch: 4, heartbeat: publication.heartbeat } })
  const unclaimed = { ...ours, metadata: { ...ours.metadata, annotations: stripped } }
  expect([judge(unclaimed), judge(theirs), judge(unclaimed)]).toEqual(['ours', 'foreign', 'unclaimed'])
})

function memoryAt(clock: { readonly now: number }): ClaimMemory {
  return new ClaimMemory('node-a', () => clock.now)
}
