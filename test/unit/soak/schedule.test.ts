import { expect, test } from 'vitest'
import { fault, touched } from '../../soak/faults.ts'
import { rounds, schedule } from '../../soak/schedule.ts'

const many = schedule({ seed: 7, count: 2_000 })

test('the same seed plans the same faults, another one others', () => {
  expect(schedule({ seed: 7, count: 50 })).toEqual(schedule({ seed: 7, count: 50 }))
  expect(schedule({ seed: 8, count: 50 })).not.toEqual(schedule({ seed: 7, count: 50 }))
})

test('every kind of fault comes, and what is planned can be recorded and read again', () => {
  const kinds = new Set(many.map(({ what }) => what.kind))
  expect([...kinds].sort()).toEqual([
    'cutWatches',
    'deleteModel',
    'deletePublished',
    'edit',
    'editPublished',
    'evict',
    'fdLimit',
    'fillDisk',
    'holdEvicted',
    'killAgent',
    'killAgentInStart',
    'killApi',
    'killServer',
    'memory',
    'moveNamespace',
    'newContent',
    'noAddress',
    'pause',
    'prune',
    'readOnlyDisk',
    'recreate',
    'refuse',
    'restart',
    'scaleToZero',
    'secondAgent',
    'stallApi',
    'stepClock',
    'stopServer',
    'takeBackEdit',
    'terminateAgent',
    'twin',
  ])
  const recorded: unknown = JSON.parse(JSON.stringify(many))
  expect(fault.array().parse(recorded)).toEqual(many)
})

test('nothing but an orderly end of the agent, or of its work for the namespace, may end the server of the steady service', () => {
  const touching = many.filter((one) => touched(one).includes('steady')).map(({ what }) => what.kind)
  expect(new Set(touching)).toEqual(new Set(['moveNamespace', 'terminateAgent']))
})

test('rounds hold every fault once, in order, the rest in the last', () => {
  expect(rounds([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]])
  expect(rounds([], 2)).toEqual([])
})
