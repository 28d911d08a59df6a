import { describe, expect, test } from 'vitest'
import {
  chooseExcess,
  type ExcessQuestion,
  type GrowingServer,
  type GrownServer,
  GrowthWatch,
  marginOf,
  reportedExcess,
} from '../../../src/agent-core/memory/growth.ts'
import { Recorder } from '../../support/running-agent.ts'
import { eventually } from '../../support/eventually.ts'

const gib = 1024 ** 3

/** In GiB. `hidden`: of a mapped model, what may be taken and not be measured. */
const server = (
  key: string,
  {
    need = 4,
    excess = 0,
    hidden = 0,
    isEnding = false,
  }: { need?: number; excess?: number; hidden?: number; isEnding?: boolean } = {},
): GrownServer => ({
  key,
  role: 'current',
  needBytes: need * gib,
  committedBytes: (need + excess) * gib,
  excessBytes: excess * gib,
  possibleExcessBytes: (excess + hidden) * gib,
  isEnding,
})

const question = (servers: readonly GrownServer[], more: Partial<ExcessQuestion> = {}): ExcessQuestion => ({
  servers,
  budgetBytes: 16 * gib,
  level: 'normal',
  available: { bytes: 8 * gib, criticalBelowBytes: 2.4 * gib },
  marginBytes: undefined,
  ...more,
})

const short = (availableGib: number): Partial<ExcessQuestion> => ({
  level: 'critical',
  available: { bytes: availableGib * gib, criticalBelowBytes: 2.4 * gib },
})

describe('which server is ended for what it takes past its need', () => {
  test.each<[string, ExcessQuestion, string | undefined]>([
    [
      'none while all is within the budget, however wrong an estimate is',
      question([server('a', { excess: 11 })]),
      undefined,
    ],
    ['the one that leads past the budget', question([server('a'), server('b', { excess: 9 })]), 'b budget'],
    [
      'of two the one that is further past its need',
      question([server('a', { excess: 4 }), server('b', { excess: 5 })]),
      'b budget',
    ],
    [
      'none where it is past its need by no more than an estimate may be wrong',
      question([server('a', { need: 15.95, excess: 0.06 })]),
      undefined,
    ],
    ['none that keeps to its need, as after the budget was lowered', question([server('a', { need: 20 })]), undefined],
    [
      'none that is past its need by less than the margin where the needs alone are more than the budget',
      question([server('a', { need: 20, excess: 2.9 })]),
      undefined,
    ],
    ['but one that is past the margin too', question([server('a', { need: 20, excess: 3.1 })]), 'a budget'],
    [
      'by a margin that a person set',
      question([server('a', { need: 20, excess: 2 })], { marginBytes: gib }),
      'a budget',
    ],
    [
      'none where what comes back of one that was ended is enough',
      question([server('a', { excess: 9, isEnding: true }), server('b', { excess: 5 })]),
      undefined,
    ],
    [
      'a further one where it is not',
      question([server('a', { excess: 9, isEnding: true }), server('b', { excess: 9 })]),
      'b budget',
    ],
    [
      'one that is far past its need while memory is critically short, within the budget as well',
      question([server('a'), server('b', { excess: 1.5 })], short(0.1)),
      'b available',
    ],
    [
      'one that is a little past it where memory would not be short without that',
      question([server('a', { excess: 0.5 })], short(2)),
      'a available',
    ],
    ['none where something else is what makes it short', question([server('a', { excess: 0.5 })], short(1)), undefined],
    [
      'of a mapped model also what the measurement may leave out, but only then',
      question([server('a', { need: 12, hidden: 5 })], short(0.1)),
      'a available',
    ],
    [
      'none where what leads past the budget is the same memory, counted twice',
      question([
        { ...server('a', { need: 10, excess: 1 }), shared: { name: 'tag', keys: ['a', 'b'] } },
        { ...server('b', { need: 10, excess: 1 }), shared: { name: 'tag', keys: ['a', 'b'] } },
      ]),
      undefined,
    ],
    ['not of one that keeps the budget', question([server('a', { need: 12, hidden: 5 })]), undefined],
    [
      'none where memory cannot be read',
      question([server('a', { excess: 5 })], { level: 'critical', available: undefined }),
      undefined,
    ],
    [
      'none of which nobody knows the need',
      question([{ ...server('a'), needBytes: undefined, committedBytes: 40 * gib }]),
      undefined,
    ],
  ])('%s', (_, asked, expected) => {
    const verdict = chooseExcess(asked)
    expect(verdict && `${verdict.end.key} ${verdict.cause}`).toBe(expected)
  })

  test('the sentence says what it took, what it was admitted with, and what that led to', () => {
    expect(chooseExcess(question([server('a'), server('b', { excess: 9 })]))?.sentence).toBe(
      'It took 9.7 GB more than the 4.3 GB that it was admitted with, and with that the models take 18.3 GB, more than the budget of 17.2 GB, so the agent stopped it.',
    )
    expect(chooseExcess(question([server('b', { excess: 1.5 })], short(0.1)))?.sentence).toMatch(
      /, and memory is critically short \(107 MB really available\), so the agent stopped it\.$/,
    )
  })
})

test('people are told past the margin, again when it is half as much more, and no more when it has fallen', () => {
  const told = (excess: number, before?: number) => {
    const bytes = reportedExcess(
      server('a', { need: 4, excess }),
      before === undefined ? undefined : before * gib,
      undefined,
    )
    return bytes === undefined ? undefined : bytes / gib
  }
  expect([marginOf(4 * gib), marginOf(20 * gib)]).toEqual([gib, 3 * gib])
  expect([told(0.9), told(1.25), told(1.5, 1.25), told(2, 1.25), told(1, 1.25), told(0.9, 1.25)]).toEqual([
    undefined,
    1.25,
    1.25,
    2,
    1.25,
    undefined,
  ])
})

describe('the watch over growth', () => {
  const watched = (servers: readonly GrowingServer[]) => {
    const room = {
      resident: new Map([[7, gib]]),
      footprint: new Map([[7, gib]]),
      asked: [] as string[],
      looks: 0,
      measured: [] as number[],
      isBroken: false,
      log: new Recorder(),
    }
    const watch = new GrowthWatch({
      platform: {
        membersOf: () => {
          room.asked.push('members')
          return Promise.resolve(new Map())
        },
        residentBytes: () => {
          room.asked.push('resident')
          return room.isBroken ? Promise.reject(new Error('No answer.')) : Promise.resolve(room.resident)
        },
        footprints: () => {
          room.asked.push('footprint')
          return Promise.resolve(room.footprint)
        },
      },
      servers: () => servers,
      onMeasured: (footprints) => void room.measured.push(...footprints.values()),
      onLook: () => (room.looks += 1),
      log: room.log,
    })
    watch.begin()
    return { room, watch, [Symbol.asyncDispose]: () => watch[Symbol.asyncDispose]() }
  }
  const isLoading = true

  test('asks for the dear figure only where the cheap one is past what is known, and has changed since', async () => {
    await using it = watched([{ id: 'a', groupId: 7, isLoading, floorBytes: 2 * gib }])
    const { room } = it
    await eventually(() => room.looks >= 1)
    expect(room.asked).not.toContain('footprint')
    room.resident.set(7, 3 * gib)
    room.footprint.set(7, 2.5 * gib)
    await eventually(() => room.measured.length === 1)
    const { looks } = room
    await eventually(() => room.looks > looks)
    expect(room.measured).toEqual([2.5 * gib])
  })

  test('takes a figure that cannot be read for none, and says so once', async () => {
    await using it = watched([{ id: 'a', groupId: 7, isLoading, floorBytes: 0 }])
    const { room } = it
    room.isBroken = true
    await eventually(() => room.asked.filter((one) => one === 'resident').length >= 1 && room.log.warnings.length > 0)
    expect([room.looks, room.measured]).toEqual([0, []])
    room.isBroken = false
    it.watch.begin()
    await eventually(() => room.log.infos.length > 0, { timeoutMs: 8_000 })
    expect(room.log.warnings).toHaveLength(1)
  })
})
