import { expect, test } from 'vitest'
import { busyServices, busyTurns, iconAfterCpuMs } from '../support/busy-app.ts'
import { isOnElectron } from '../support/real-electron/find-electron.ts'

const startLimitMs = 1_000
/** A click that waits longer is felt. */
const turnLimitMs = 50

test(`the icon is there after ${startLimitMs} ms of work`, async () => {
  expect(await iconAfterCpuMs()).toBeLessThan(startLimitMs)
})

test(`99 of 100 turns of the app take less than ${turnLimitMs} ms while a model downloads and ${busyServices} services change`, async ({
  skip,
}) => {
  skip(
    isOnElectron,
    'on the stand-in alone: Playwright takes away NODE_OPTIONS, by which the recorder of turns is loaded',
  )
  const { p99Ms, longest, state } = await busyTurns()
  expect(state).toBe('fetching')
  expect(p99Ms, `the longest turns take ${JSON.stringify(longest)} ms`).toBeLessThan(turnLimitMs)
})
