import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { z } from 'zod'
import { Popover } from '../../src/main/window/popover.ts'
import { app } from '../support/electron-stand-in/app.ts'
import { nativeTheme } from '../support/electron-stand-in/native-theme.ts'
import { clickElsewhere, clickIcon, iconClick } from '../support/electron-stand-in/person.ts'
import { displays, screen } from '../support/electron-stand-in/screen.ts'
import { NativeImage } from '../support/electron-stand-in/native-image.ts'
import { Tray } from '../support/electron-stand-in/tray.ts'
import { windows } from '../support/electron-stand-in/windows.ts'
import { silentLog } from '../support/silent-log.ts'

/** The class itself, on a stated clock: only the stand-in can be had inside of the test. */
vi.mock('electron', () => import('../support/electron-stand-in/electron.ts'))

/** So long a page takes to be painted, and what it says to come to the app. */
const paintMs = 100
const ipcMs = 5

const pages = vi.hoisted((): { focused: (isFocused: boolean) => void; addresses: string[] } => ({
  focused: () => undefined,
  addresses: [],
}))
vi.mock('../support/electron-stand-in/page.ts', () => ({
  openPage: () => {
    const closed = Promise.withResolvers<never>()
    closed.promise.catch(() => undefined)
    return Promise.resolve({
      goto: (address: string) => {
        pages.addresses.push(address)
        const painted = new Promise((resolve) => setTimeout(resolve, paintMs))
        return Promise.race([painted, closed.promise])
      },
      receive: () => Promise.resolve(),
      focused: (isFocused: boolean) => {
        setTimeout(() => pages.focused(isFocused), ipcMs)
        return Promise.resolve()
      },
      close: () => {
        closed.reject(new Error('net::ERR_ABORTED'))
        return Promise.resolve()
      },
    })
  },
}))

let tray: Tray
let popover: Popover
let problem: string | undefined
let mayLose: boolean

beforeEach(() => {
  vi.useFakeTimers()
  if (!app.isReady()) app.becomeReady()
  app.mayFocus = true
  app.setActivationPolicy('accessory')
  app.on('window-all-closed', () => undefined)
  tray = new Tray(new NativeImage(undefined))
  tray.setIgnoreDoubleClickEvents(true)
  popover = new Popover({
    preload: import.meta.filename,
    log: silentLog,
    icon: () => tray.getBounds(),
    onProblem: (said) => (problem = said),
    mayLose: () => Promise.resolve(mayLose),
  })
  mayLose = false
  pages.addresses = []
  pages.focused = (isFocused) => popover.focused(isFocused)
  tray.on('mouse-down', () => popover.pressed())
  tray.on('click', (_keys, bounds: ReturnType<Tray['getBounds']>) => popover.toggle(bounds))
})

afterEach(async () => {
  popover.end()
  await vi.runAllTimersAsync()
  for (const emitter of [app, screen, nativeTheme]) emitter.removeAllListeners()
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const passed = (ms: number) => vi.advanceTimersByTimeAsync(ms)

async function click(how: z.input<typeof iconClick> = {}): Promise<void> {
  const clicked = clickIcon(tray, iconClick.parse(how))
  await passed(3_000)
  await clicked
}

async function opened(): Promise<void> {
  popover.toggle(tray.getBounds())
  await passed(paintMs + 200)
}

const seen = () => [...windows].map(({ shown }) => shown.isVisible)

describe('a window under the icon', () => {
  test('is not seen before its page is painted', async () => {
    popover.show()
    await passed(paintMs - 1)
    const before = seen()
    await passed(200)
    expect([before, seen()]).toEqual([[false], [true]])
  })

  test('is a panel on the ground of its page, which follows the appearance', async () => {
    nativeTheme.become('dark')
    await opened()
    const [dark] = windows
    const before = dark?.shown
    nativeTheme.become('light')
    expect([before?.isPanel, before?.background, dark?.shown.background]).toEqual([true, '#1c1c1f', '#f3f3f5'])
  })

  test('is destroyed when it was hidden for a minute, and not before', async () => {
    await opened()
    popover.hide()
    await passed(59_900)
    const before = seen()
    await passed(200)
    expect([before, seen()]).toEqual([[false], []])
  })

  test('is the same when it is opened within the minute', async () => {
    await opened()
    const [first] = windows
    popover.hide()
    await passed(50_000)
    popover.show()
    await passed(50_000)
    expect([[...windows], seen()]).toEqual([[first], [true]])
  })

  test('stays while its page has what must not be lost', async () => {
    await opened()
    popover.keep(true)
    popover.hide()
    await passed(10 * 60_000)
    expect(seen()).toEqual([false])
  })

  test('goes a minute after its page has it no more, hidden all the while', async () => {
    await opened()
    popover.keep(true)
    popover.hide()
    await passed(10 * 60_000)
    popover.keep(false)
    await passed(59_900)
    const before = seen()
    await passed(200)
    expect([before, seen()]).toEqual([[false], []])
  })

  test('stays without an end only as long as the page is the same', async () => {
    await opened()
    popover.keep(true)
    for (const { webContents } of windows) webContents.navigated('app://metalbar/index.html')
    popover.hide()
    await passed(61_000)
    expect(seen()).toEqual([])
  })

  test('is turned to a place by another address each time, which loads nothing anew', async () => {
    for (let time = 0; time < 3; time += 1) {
      popover.show({ view: 'settings' })
      await passed(paintMs + 200)
    }
    popover.turn({ view: 'settings' })
    await passed(paintMs + 200)
    expect([new Set(pages.addresses).size, pages.addresses]).toEqual([
      4,
      pages.addresses.map(() => expect.stringMatching(/\/index\.html#settings\?\d+$/) as unknown),
    ])
  })

  test('is turned without being shown, and not made for it', async () => {
    popover.turn({ view: 'models' })
    const none = seen()
    await opened()
    popover.hide()
    popover.turn({ view: 'models' })
    await passed(1_000)
    expect([none, seen(), pages.addresses.length]).toEqual([[], [false], 2])
  })

  test('is hidden by its close key as by Esc, with what stands in it', async () => {
    await opened()
    const [first] = windows
    first?.close()
    await passed(100)
    const closed = seen()
    popover.show()
    await passed(100)
    expect([closed, seen(), [...windows]]).toEqual([[false], [true], [first]])
  })

  test('does not hold up the end of the app', async () => {
    await opened()
    popover.end()
    expect(seen()).toEqual([])
  })

  test('that is covered by others is still open, so that a click closes it', async () => {
    await opened()
    for (const window of windows) window.occlude(true)
    popover.toggle(tray.getBounds())
    for (const window of windows) window.occlude(false)
    await passed(100)
    expect(seen()).toEqual([false])
  })
})

describe('the keys', () => {
  test('are taken without making the app the active one, and a click elsewhere closes the window', async () => {
    await opened()
    await passed(1_000)
    const before = [seen(), app.isActive()]
    clickElsewhere()
    await passed(100)
    expect([before, seen()]).toEqual([[[true], false], [false]])
  })

  test('are never had, and the next click elsewhere closes the window all the same', async () => {
    app.mayFocus = false
    await opened()
    await passed(1_000)
    const before = seen()
    clickElsewhere()
    await passed(100)
    expect([before, seen()]).toEqual([[true], [false]])
  })

  test('that a dialog has do not close it, nor while the second of two is answered', async () => {
    await opened()
    const [first, second] = [Promise.withResolvers(), Promise.withResolvers()]
    const asked = [first, second].map(({ promise }) => popover.during(() => promise))
    first.resolve(undefined)
    await passed(100)
    clickElsewhere()
    await passed(1_000)
    const meanwhile = seen()
    second.resolve(undefined)
    await Promise.all(asked)
    await passed(100)
    clickElsewhere()
    await passed(1_000)
    expect([meanwhile, seen()]).toEqual([[true], [false]])
  })

  test('that were lost before it was shown again do not close it', async () => {
    await opened()
    popover.hide()
    popover.show()
    await passed(1_000)
    expect(seen()).toEqual([true])
  })
})

describe('a click on the icon', () => {
  const blurs = ['before', 'during', 'after', 'never'] as const
  const cases = blurs.flatMap((blur) => [0, 100, 200].map((gapMs) => ({ blur, gapMs })))

  test.for(cases)('closes the window that is open, which loses the keys $blur it, $gapMs ms apart', async (how) => {
    await opened()
    await click(how)
    expect(seen()).toEqual([false])
  })

  test.for(['before', 'during'] as const)(
    'does so too when the button stays down, the keys lost %s it',
    async (blur) => {
      await opened()
      const clicked = clickIcon(tray, iconClick.parse({ blur, holdMs: 1_500 }))
      await passed(2_000)
      await clicked
      expect(seen()).toEqual([false])
    },
  )

  test('that is the second of two quick ones closes what the first opened', async () => {
    const clicked = clickIcon(tray, iconClick.parse({ isDouble: true, blur: 'never', holdMs: 120 }))
    await passed(1_000)
    await clicked
    expect(seen()).toEqual([false])
  })

  test('by VoiceOver, which sends it before the press and no release, opens a window that was closed otherwise', async () => {
    const voiceOver = async () => {
      tray.released(1, { ctrlKey: false }, tray.getBounds())
      tray.emit('mouse-down', { ctrlKey: false }, tray.getBounds())
      await passed(1_000)
    }
    await voiceOver()
    const first = seen()
    popover.escape()
    await voiceOver()
    const reopened = seen()
    await voiceOver()
    expect([first, reopened, seen()]).toEqual([[true], [true], [false]])
  })

  test('that does not know where the icon is opens it there', async () => {
    await click({ bounds: 'empty' })
    expect([...windows].map(({ shown }) => shown.bounds)).toEqual([{ x: 812, y: 30, width: 400, height: 620 }])
  })
})

describe('displays', () => {
  const { laptop, left } = displays

  afterEach(() => screen.change([laptop, left]))

  test('the window opens on the one whose icon is clicked', async () => {
    tray.moveTo({ x: -400, y: -178, width: 24, height: 25 })
    await click()
    expect([...windows].map(({ shown }) => shown.bounds.x)).toEqual([-588])
  })

  test('the window moves to the icon when its display is unplugged', async () => {
    tray.moveTo({ x: -400, y: -178, width: 24, height: 25 })
    await opened()
    screen.change([laptop])
    tray.moveTo({ x: 1_000, y: 0, width: 24, height: 25 })
    await passed(1_000)
    expect([...windows].map(({ shown }) => [shown.bounds.x, shown.bounds.y])).toEqual([[812, 30]])
  })

  test.for([
    ['the window of its own moves into the one that is left', { x: -1_500, y: 200 }, { x: 0, y: 200 }],
    ['one whose title bar can be reached stays where a person put it', { x: -100, y: 700 }, { x: -100, y: 700 }],
  ] as const)('unplugged, %s', async ([, before, after]) => {
    await popover.tearOff()
    await passed(1_000)
    const [window] = windows
    window?.setPosition(before.x, before.y)
    screen.change([laptop])
    await passed(1_000)
    const shown = window?.shown
    expect([shown?.bounds, seen(), app.dock.isVisible()]).toEqual([{ ...after, width: 400, height: 620 }, [true], true])
  })

  test('a window of its own that is hidden with what a person wrote comes back within reach', async () => {
    await popover.tearOff()
    await passed(1_000)
    const [window] = windows
    window?.setBounds({ x: -1_500, y: -100, width: 1_700, height: 1_000 })
    popover.keep(true)
    popover.hide()
    screen.change([laptop])
    await passed(1_000)
    popover.show()
    await passed(1_000)
    expect([[...windows], window?.shown.bounds]).toEqual([[window], { x: 0, y: 25, width: 1_440, height: 875 }])
  })

  test('with none for a while the window of its own is left alone', async () => {
    await popover.tearOff()
    await passed(1_000)
    const [window] = windows
    const before = window?.shown.bounds
    screen.change([])
    await passed(1_000)
    expect(window?.shown.bounds).toEqual(before)
  })

  test('the window opens in the corner while the icon is hidden', async () => {
    tray.moveTo({ x: 0, y: 1_117, width: 32, height: 22 })
    popover.show()
    await passed(1_000)
    expect([...windows].map(({ shown }) => [shown.bounds.x, shown.bounds.y])).toEqual([[1_035, 30]])
  })

  test.for([
    ['half a point', 1_000, 813],
    ['half a point left of the origin', 187, 0],
  ] as const)('a window whose middle is %s is put at a whole one', async ([, x, place]) => {
    screen.change([{ ...laptop, bounds: { ...laptop.bounds, x: -100 }, workArea: { ...laptop.workArea, x: -100 } }])
    tray.moveTo({ x, y: 0, width: 25, height: 25 })
    await click()
    expect([...windows].map(({ shown }) => shown.bounds.x)).toEqual([place])
  })
})

describe('torn off', () => {
  test('it is a window with an icon in the Dock, as long as it is open', async () => {
    const before = app.dock.isVisible()
    await popover.tearOff()
    await passed(2_000)
    clickElsewhere()
    await passed(200)
    const open = [seen(), app.dock.isVisible()]
    for (const window of windows) window.close()
    await passed(2_000)
    expect([before, open, seen(), app.dock.isVisible()]).toEqual([false, [[true], true], [], false])
  })

  test.for(['close', 'hide'] as const)(
    '%s hides it while its page has what must not be lost, and it comes back with it',
    async (how) => {
      await popover.tearOff()
      await passed(2_000)
      const [first] = windows
      popover.keep(true)
      if (how === 'close') first?.close()
      else popover.hide()
      await passed(10 * 60_000)
      const hidden = [seen(), app.dock.isVisible()]
      popover.show()
      await passed(1_000)
      expect([hidden, seen(), app.dock.isVisible(), [...windows]]).toEqual([[[false], false], [true], true, [first]])
    },
  )

  test.for([false, true])('what must not be lost is asked about first: lost %s', async (isLost) => {
    await opened()
    const [first] = windows
    popover.keep(true)
    mayLose = isLost
    await popover.tearOff()
    await passed(1_000)
    expect([seen(), [...windows][0] === first, [...windows][0]?.shown.isPanel]).toEqual([[true], !isLost, !isLost])
  })

  test('it is on one space, and under the icon on every one and over apps that fill the screen', async () => {
    await opened()
    const under = [...windows].map(({ shown }) => shown.isEverywhere)
    await popover.tearOff()
    await passed(1_000)
    expect([under, [...windows].map(({ shown }) => shown.isEverywhere)]).toEqual([[true], [false]])
  })

  test('under the icon it leaves the Dock alone, where Electron would hide its icon and the window for a moment', async () => {
    const hide = vi.spyOn(app.dock, 'hide')
    await opened()
    const calls = hide.mock.calls.length
    hide.mockRestore()
    expect([calls, seen()]).toEqual([0, [true]])
  })

  test('closed at once it leaves no icon in the Dock', async () => {
    await popover.tearOff()
    await passed(300)
    for (const window of windows) window.close()
    await passed(2_000)
    expect(app.dock.isVisible()).toBe(false)
  })

  test('closed at once it leaves none although the timer comes a little early, as those of Node.js may', async () => {
    const wait = setTimeout
    vi.spyOn(globalThis, 'setTimeout').mockImplementation((work: () => void, ms = 0) => wait(work, ms - 1))
    await popover.tearOff()
    await passed(300)
    for (const window of windows) window.close()
    await passed(2_000)
    expect(app.dock.isVisible()).toBe(false)
  })

  test('it comes back as one when its page crashes', async () => {
    await popover.tearOff()
    await passed(300)
    for (const { webContents } of [...windows]) webContents.emit('render-process-gone', {}, { reason: 'crashed' })
    await passed(2_000)
    expect([seen(), app.dock.isVisible(), [...windows][0]?.shown.isPanel]).toEqual([[true], true, false])
  })
})

describe('a page whose window is gone', () => {
  test('is none that did not load', async () => {
    problem = undefined
    popover.show()
    await passed(paintMs / 2)
    popover.end()
    await passed(1_000)
    expect([seen(), problem]).toEqual([[], undefined])
  })

  test('is not made anew when its process ends then', async () => {
    await opened()
    const gone = [...windows].map(({ webContents }) => webContents)
    popover.end()
    for (const webContents of gone) webContents.emit('render-process-gone', {}, { reason: 'killed' })
    await passed(1_000)
    expect(seen()).toEqual([])
  })
})

describe('a page that crashes', () => {
  const crash = () => {
    for (const { webContents } of [...windows]) webContents.emit('render-process-gone', {}, { reason: 'oom' })
  }

  test('is made anew, unless it does it again within a minute', async () => {
    await opened()
    crash()
    await passed(30_000)
    const again = seen()
    crash()
    await passed(1_000)
    expect([again, seen(), problem]).toEqual([[true], [], expect.stringContaining('crashed twice')])
  })

  test('while it is loaded is not made anew for ever', async () => {
    popover.show()
    for (let second = 0; second < 120; second += 1) {
      crash()
      await passed(1_000)
    }
    expect([seen(), problem]).toEqual([[], expect.stringContaining('crashed twice')])
  })

  test('once in a while is always made anew', async () => {
    await opened()
    for (let crashes = 0; crashes < 3; crashes += 1) {
      crash()
      await passed(61_000)
    }
    expect(seen()).toEqual([true])
  })
})
