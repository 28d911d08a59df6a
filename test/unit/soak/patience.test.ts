import { expect, test } from 'vitest'
import type { AgentName } from '../../soak/faults.ts'
import type { Finding } from '../../soak/judge.ts'
import { lateMs, Patience, patienceMs } from '../../soak/patience.ts'

const beatMs = 50
const wrong: Finding = { rule: 'listener', service: 'red', duty: 'first', sentence: 'It is wrong.' }
const counted: Finding = { rule: 'status writes', service: 'red', sentence: 'They are too many.' }

type CanAct = (agent: AgentName) => boolean
const anybody: CanAct = () => true
const nobody: CanAct = () => false

/** Looks on the beat for so long. */
function looks(
  patience: Patience,
  from: number,
  forMs: number,
  findings: readonly Finding[],
  canAct: CanAct = anybody,
) {
  const moments = Array.from({ length: forMs / beatMs + 1 }, (_, beat) => from + beat * beatMs)
  return moments.flatMap((at) => patience.see(findings, { at, canAct }))
}

test('what is wrong for two seconds is not told, and once it lasts longer it is told once', () => {
  const patience = new Patience()
  expect(looks(patience, 0, patienceMs, [wrong])).toEqual([])
  expect(looks(patience, patienceMs + beatMs, 5_000, [wrong])).toEqual([wrong])
})

test('what is right in between begins anew', () => {
  const patience = new Patience()
  expect(looks(patience, 0, 1_500, [wrong])).toEqual([])
  expect(looks(patience, 1_550, 0, [])).toEqual([])
  expect(looks(patience, 1_600, 1_500, [wrong])).toEqual([])
})

test('time in which the agent cannot act does not count, and the time before it neither', () => {
  const patience = new Patience()
  looks(patience, 0, 1_500, [wrong])
  expect(looks(patience, 1_550, 10_000, [wrong], nobody)).toEqual([])
  expect(looks(patience, 11_600, 1_500, [wrong])).toEqual([])
})

test('it is up to the agent that has the duty', () => {
  const patience = new Patience()
  const onlySecond: CanAct = (agent) => agent === 'second'
  expect(looks(patience, 0, 10_000, [wrong], onlySecond)).toEqual([])
  const others: Finding = { ...wrong, duty: 'second' }
  expect(looks(patience, 20_000, 10_000, [others], onlySecond)).toEqual([others])
})

test('a look that comes late does not count: the machine starved', () => {
  const patience = new Patience()
  const late = Array.from({ length: 100 }, (_, look) => look * (lateMs + 1))
  expect(late.flatMap((at) => patience.see([wrong], { at, canAct: anybody }))).toEqual([])
})

test('what nobody can put right later is told at once, and once', () => {
  expect(looks(new Patience(), 0, 1_000, [counted], nobody)).toEqual([counted])
})
