import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createAgentView } from '../../src/main/agent/agent-view.ts'
import { hurtsModels, stopBeforeQuit } from '../../src/main/lifecycle/quit.ts'
import { app } from '../support/electron-stand-in/app.ts'
import { announce, powerMonitor } from '../support/electron-stand-in/power-monitor.ts'
import { sampleService, sampleSnapshot } from '../support/sample-snapshot.ts'
import { silentLog } from '../support/silent-log.ts'

/** The parts themselves, on a stated clock: only the stand-in can be had inside of the test. */
vi.mock('electron', () => import('../support/electron-stand-in/electron.ts'))

const story: string[] = []
let stopped = Promise.withResolvers<boolean>()

beforeEach(() => {
  vi.useFakeTimers()
  story.length = 0
  stopped = Promise.withResolvers()
  vi.spyOn(app, 'exit').mockImplementation((code = 0) => void story.push(`exit ${code}`))
  stopBeforeQuit({
    log: silentLog,
    onQuitting: () => story.push('quitting'),
    stop: () => stopped.promise,
    onStopped: () => story.push('stopped'),
    cutDrains: () => Promise.resolve(void story.push('drains cut')),
  })
})

afterEach(() => {
  app.closeWasPrevented()
  app.removeAllListeners()
  powerMonitor.removeAllListeners()
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.removeAllListeners(signal)
  vi.restoreAllMocks()
  vi.useRealTimers()
})

test('a shutdown of the system is given four seconds of drains, and waits for nothing after thirteen', async () => {
  expect(announce('shutdown')).toBe(true)
  await vi.advanceTimersByTimeAsync(3_900)
  const before = [...story]
  await vi.advanceTimersByTimeAsync(200)
  const cut = [...story]
  await vi.advanceTimersByTimeAsync(8_700)
  const waits = [...story]
  await vi.advanceTimersByTimeAsync(300)
  expect([before, cut, waits, story]).toEqual([
    ['quitting'],
    ['quitting', 'drains cut'],
    ['quitting', 'drains cut'],
    ['quitting', 'drains cut', 'exit 1'],
  ])
})

test('a shutdown while a quit drains cuts that one', async () => {
  app.quit()
  await vi.advanceTimersByTimeAsync(10_000)
  announce('shutdown')
  await vi.advanceTimersByTimeAsync(4_100)
  stopped.resolve(true)
  await vi.advanceTimersByTimeAsync(0)
  expect(story).toEqual(['quitting', 'drains cut', 'stopped', 'exit 0'])
})

test('what could not be stopped is said by the exit code', async () => {
  app.quit()
  stopped.resolve(false)
  await vi.advanceTimersByTimeAsync(0)
  expect(story).toEqual(['quitting', 'stopped', 'exit 1'])
})

test.for([
  ['a model that is fetched', true, { state: 'fetching' }, true],
  ['a model with a process', true, { state: 'stopping', pid: 7 }, true],
  ['what another program runs', false, { state: 'ready', pid: 7 }, false],
  ['a model that waits', true, { state: 'waiting' }, false],
] as const)('a quit would hurt %s: %#', ([, isHere, service, hurts]) => {
  const { pid, ...rest } = { pid: undefined, ...service }
  const services = [sampleService({ ...rest, ...(pid !== undefined && { pid }) })]
  const view = { ...createAgentView('linux').getState(), isHere, snapshot: sampleSnapshot({ services }) }
  expect(hurtsModels(view)).toBe(hurts)
})
