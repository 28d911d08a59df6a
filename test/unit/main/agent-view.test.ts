import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { LinkError, type AgentLink, type Listener, type Looker } from '../../../src/contract/client.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import { createAgentView, keepShowing } from '../../../src/main/agent/agent-view.ts'
import { defaultPreferences } from '../../../src/main/preferences.ts'
import { sampleSnapshot } from '../../support/sample-snapshot.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function shown() {
  const followed: { listener: Listener<AgentSnapshot>; looker: Looker | undefined; isLeft: boolean }[] = []
  const link: Pick<AgentLink, 'follow'> = {
    follow: (listener, looker) => {
      const one = { listener, looker, isLeft: false }
      followed.push(one)
      return () => (one.isLeft = true)
    },
  }
  const view = createAgentView()
  return { followed, view, stop: keepShowing(link, view) }
}

test('an agent that ends is said to be gone, and shown again when it is back', () => {
  const { followed, view } = shown()
  followed[0]?.listener.next(sampleSnapshot())
  const before = view.getState().snapshot?.bootId
  followed[0]?.listener.end(new LinkError('gone', 'The agent has ended.'))
  const { snapshot, problem } = view.getState()
  vi.advanceTimersByTime(1_000)
  followed[1]?.listener.next(sampleSnapshot())
  expect([before, snapshot, problem]).toEqual([sampleSnapshot().bootId, undefined, 'The agent has ended.'])
  expect([followed.length, view.getState().problem, view.getState().snapshot?.bootId]).toEqual([2, '', before])
})

test('more is measured while the menu is open or figures stand beside the icon, also from the start on', () => {
  const { followed, view, stop } = shown()
  for (const isMenuOpen of [true, true, false]) view.setState({ isMenuOpen })
  view.setState({ preferences: { ...defaultPreferences, showTitle: true } })
  view.setState({ isMenuOpen: true })
  stop()
  view.setState({ preferences: defaultPreferences, isMenuOpen: false })
  expect(followed.map(({ looker, isLeft }) => [looker, isLeft])).toEqual([
    ['icon', true],
    ['menu', true],
    ['icon', true],
    ['menu', true],
  ])
})
