import { expect, test } from 'vitest'
import { type ServiceState, type Step, stepNames } from '../../../src/contract/service.ts'
import { rowSteps } from '../../../src/renderer/row-steps.ts'
import { stepsWords } from '../../../src/renderer/words/services.ts'

/** `d` done, `a` active, `w` waiting, `f` failed. */
function shown(state: ServiceState, letters: string): string | undefined {
  const statuses: Readonly<Record<string, Step['status']>> = { d: 'done', a: 'active', w: 'waiting', f: 'failed' }
  const step = (index: number): Step => ({ status: statuses[letters.charAt(index)] ?? 'waiting' })
  const [fetched, started, healthy, published, clusterAgrees] = stepNames.map((_, index) => step(index))
  if (!fetched || !started || !healthy || !published || !clusterAgrees) throw new Error('There are five steps.')
  const track = rowSteps({ state, steps: { fetched, started, healthy, published, clusterAgrees } })
  return track && stepsWords.row(track)
}

test.for<[ServiceState, steps: string, words: string | undefined]>([
  ['fetching', 'awwww', '0 of 5 steps done. Fetching.'],
  ['starting', 'ddaww', '2 of 5 steps done. Waiting for first answer.'],
  ['crash-looping', 'dfwww', '1 of 5 steps done. Not started.'],
  ['unready', 'ddfww', '2 of 5 steps done. Not healthy.'],
  ['waiting', 'dwwww', '1 of 5 steps done. Next: Started.'],
  ['ready', 'ddddf', '4 of 5 steps done. The cluster disagrees.'],
  ['ready', 'dddaw', '3 of 5 steps done. Publishing.'],
  ['ready', 'ddddd', undefined],
  ['ready', 'dddda', undefined],
  ['refused', 'wwwww', undefined],
  ['refused', 'dwwww', '1 of 5 steps done. Next: Started.'],
  ['stopped', 'dwwww', undefined],
  ['stopping', 'ddddd', undefined],
  ['foreign', 'dwwww', undefined],
])('a service that is %s with the steps %s shows: %s', ([state, steps, words]) => {
  expect(shown(state, steps)).toBe(words)
})
