import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { askToQuit, confirm, tellCannotStart } from '../../src/main/lifecycle/questions.ts'
import { app } from '../support/electron-stand-in/app.ts'
import { press, question } from '../support/electron-stand-in/dialog.ts'

/** The parts themselves: only the stand-in can be had inside of the test. */
vi.mock('electron', () => import('../support/electron-stand-in/electron.ts'))

beforeEach(() => {
  if (!app.isReady()) app.becomeReady()
  app.on('window-all-closed', () => undefined)
})
afterEach(() => void app.removeAllListeners())

const move = { message: 'Move it?', yes: 'Move' }

test('a question that waits blocks no other, and each is answered by its own button', async () => {
  const moves = confirm(move)
  const quits = askToQuit()
  const asked = question()?.message
  // What Return and Esc do takes nothing away.
  expect(question()).toMatchObject({ buttons: ['Keep in menu bar', 'Drain and stop'], defaultId: 0, cancelId: 0 })
  press('Move', false)
  press('Drain and stop', true)
  expect([asked, await moves, await quits, app.windows.size]).toEqual([
    'Models are running, and quitting stops them.',
    true,
    { quits: true, remembered: true },
    0,
  ])
})

test('Return and Esc mean Cancel', async () => {
  const moves = confirm(move)
  expect(question()).toMatchObject({ buttons: ['Move', 'Cancel'], defaultId: 1, cancelId: 1 })
  press('Cancel', false)
  expect(await moves).toBe(false)
})

test('what is asked already is brought to the front, and asked no second time', async () => {
  const first = askToQuit()
  app.resigned()
  const second = await askToQuit()
  const isInFront = app.isActive()
  press('Keep in menu bar', false)
  expect([second, isInFront, await first, question()]).toEqual([
    undefined,
    true,
    { quits: false, remembered: false },
    undefined,
  ])
  const again = askToQuit()
  press('Drain and stop', false)
  expect(await again).toEqual({ quits: true, remembered: false })
})

test('a question that is open when the app ends counts as cancelled, and does not hold up the end', async () => {
  const exit = vi.spyOn(app, 'exit').mockReturnValue()
  const moves = confirm(move)
  app.quit()
  await vi.waitFor(() => expect(exit).toHaveBeenCalledWith(0))
  expect([await moves, question()]).toEqual([false, undefined])
})

test('why the app cannot start is told, with what it is', async () => {
  const told = tellCannotStart('The disk is full.')
  expect(question()).toMatchObject({ type: 'error', detail: 'The disk is full.' })
  press('OK', false)
  await told
})
