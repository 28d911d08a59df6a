import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createAgentView } from '../../../src/main/agent/agent-view.ts'
import { targetShower } from '../../../src/main/window/show-target.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const service = (name: string) => ({ kind: 'service', namespace: 'team', name }) as const
const starting = sampleSnapshot({ services: [] })
const snapshot = sampleSnapshot({
  services: ['one', 'two'].map((name) => sampleService({ uid: `uid-${name}`, namespace: 'team', name })),
})

function shown() {
  const view = createAgentView('linux')
  const seen: unknown[] = []
  const show = targetShower(view, { show: (at) => seen.push({ at }), turn: (at) => seen.push({ turned: at }) })
  return { view, seen, show }
}

test('the window opens at once, and turns to the newest service when the agent knows it, once', () => {
  const { view, seen, show } = shown()
  show(service('one'))
  show(service('two'))
  view.setState({ snapshot: starting })
  view.setState({ snapshot })
  view.setState({ snapshot: { ...snapshot } })
  expect(seen).toEqual([{ at: undefined }, { at: undefined }, { turned: { service: 'uid-two' } }])
})

test('a service that is known is shown at once', () => {
  const { view, seen, show } = shown()
  view.setState({ snapshot })
  show(service('one'))
  expect(seen).toEqual([{ at: { service: 'uid-one' } }])
})

test('a place that was asked for since, and a minute, end the wait', () => {
  const { view, seen, show } = shown()
  show(service('one'))
  show({ kind: 'view', view: 'settings' })
  show(service('two'))
  vi.advanceTimersByTime(61_000)
  view.setState({ snapshot })
  expect(seen).toEqual([{ at: undefined }, { at: { view: 'settings' } }, { at: undefined }])
})
