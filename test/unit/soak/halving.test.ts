import { expect, test } from 'vitest'
import { halve } from '../../soak/halving.ts'

const faults = Array.from({ length: 40 }, (_, index) => index)

/** Broken where all of these are among the faults. */
function machine(...needed: number[]) {
  const runs: (readonly number[])[] = []
  const breaks = (some: readonly number[]) => {
    runs.push(some)
    return Promise.resolve(needed.every((one) => some.includes(one)))
  }
  return { runs, breaks }
}

test.each([0, 17, 39])('one fault that does it alone is found (%i)', async (needed) => {
  const { breaks } = machine(needed)
  expect(await halve(faults, breaks)).toContain(needed)
  expect((await halve(faults, breaks)).length).toBeLessThanOrEqual(3)
})

test('two faults that are far apart stay together', async () => {
  const { breaks, runs } = machine(3, 35)
  expect(await halve(faults, breaks)).toEqual(faults)
  expect(runs.map(({ length }) => length)).toEqual([20, 20])
})

test('nothing is repeated more than ten times', async () => {
  const { breaks, runs } = machine(39)
  await halve(
    Array.from({ length: 5_000 }, (_, index) => index - 4_960),
    breaks,
  )
  expect(runs).toHaveLength(10)
})

test('what does not come again leaves all faults', async () => {
  expect(await halve(faults, () => Promise.resolve(false))).toEqual(faults)
  expect(await halve([5], () => Promise.resolve(true))).toEqual([5])
})
