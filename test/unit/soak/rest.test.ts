import { expect, test } from 'vitest'
import { untilLasting } from '../../soak/rest.ts'

/** A second from look to look. */
async function seen(looks: readonly string[][], limitMs = 10_000) {
  let at = 0
  const complaints = await untilLasting(() => Promise.resolve(looks[at++] ?? []), {
    lastsMs: 3_000,
    limitMs,
    everyMs: 0,
    now: () => at * 1_000,
  })
  return { complaints, looks: at }
}

test('a service that is about to be restarted looks right once, and is at rest only when it has stayed so', async () => {
  expect(await seen([[], ['two servers'], ['two servers'], []])).toEqual({ complaints: [], looks: 7 })
})

test('what is not right in time is told, and what became right in time may still have to last', async () => {
  const wrong = Array.from({ length: 30 }, () => ['no server'])
  expect(await seen(wrong)).toEqual({ complaints: ['no server'], looks: 11 })
  expect(await seen(wrong.slice(0, 9))).toEqual({ complaints: [], looks: 13 })
})
