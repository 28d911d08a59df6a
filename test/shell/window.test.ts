import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { eventually } from '../support/eventually.ts'
import { isOnElectron } from '../support/real-electron/find-electron.ts'
import { missingBrowser, startShellBrowser } from '../support/shell-browser.ts'
import { lives, ShellApp } from '../support/shell-app.ts'
import { shellWorld } from '../support/shell-world.ts'
import { skipWhen } from '../support/skip.ts'

skipWhen(missingBrowser())

test('a click on the icon opens the window, which shows a model come up and the file of its log, and stops it: the process is gone', async () => {
  await using shell = await shellWorld()
  const { world, app } = shell
  const page = await shell.open()
  const complaints: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  world.apply('tiny')
  await page.getByRole('option', { name: 'tiny' }).getByText('Ready').waitFor()
  const pid = await app.serverOf('tiny')
  await page.getByRole('option', { name: 'tiny' }).click()
  await page.getByRole('button', { name: 'Show file' }).click()
  const [shown] = await eventually(async () => {
    const files = z.array(z.string()).parse(await app.ask({ do: 'opened' }))
    return files.length > 0 && files
  })
  expect(await readFile(shown ?? '', 'utf8')).toContain('listening')
  await page.getByRole('button', { name: 'Stop', exact: true }).click()
  await page.getByRole('button', { name: 'Start', exact: true }).waitFor()
  await eventually(() => !lives(pid))
  const { windows, isSandboxed } = await app.look()
  expect({ suspended: world.isSuspended('tiny'), complaints, isSandboxed, windows }).toEqual({
    suspended: true,
    complaints: [],
    // Every process of Chromium, whatever a window asks for.
    isSandboxed: true,
    windows: [
      {
        isVisible: true,
        hasFrame: false,
        ...(isOnElectron ? asOnThisScreen : { ...asOnStandIn, isPanel: true }),
        webPreferences: { sandbox: true, contextIsolation: true, nodeIntegration: false },
        url: 'app://metalbar/index.html',
        sent: expect.any(Number) as unknown,
      },
    ],
  })
})

test('a hidden window is sent nothing, and is right again when it is shown', async () => {
  await using shell = await shellWorld()
  const { world, app } = shell
  const page = await shell.open()
  await app.ask({ do: 'clickElsewhere' })
  world.apply('tiny')
  await app.icon('serving')
  const hidden = (await app.look()).windows
  world.apply('other')
  await app.icon('serving', 'Serving 2 models')
  expect((await app.look()).windows).toEqual(hidden)
  await app.ask({ do: 'activate' })
  await page.getByRole('option', { name: 'tiny' }).getByText('Ready').waitFor()
})

test('one part after another at once shows the last one, and nothing went wrong', async () => {
  await using browser = await startShellBrowser()
  await using app = await ShellApp.start({ preferences: {}, chromium: browser.endpoint })
  await app.icon('disconnected')
  await app.menu()
  await Promise.all(['Open Metalbar', 'Settings…'].map((label) => app.ask({ do: 'choose', labels: [label] })))
  await untilVisible(app)
  const page = await browser.window()
  await eventually(() => page.url().includes('#settings?'))
  expect([JSON.stringify(await app.menu()).includes('did not load'), await app.messages()]).toEqual([
    false,
    expect.not.arrayContaining(['the window did not load']),
  ])
})

test('Esc hides the window under the icon, but first closes what is open in it', async () => {
  await using browser = await startShellBrowser()
  await using app = await ShellApp.start({ preferences: {}, chromium: browser.endpoint })
  await app.icon('disconnected')
  await app.ask({ do: 'clickIcon' })
  const page = await browser.window()
  await untilVisible(app)
  await page.evaluate(`addEventListener('keydown', (press) => press.preventDefault(), { capture: true, once: true })`)
  await page.evaluate(`addEventListener('blur', () => (globalThis.hasLostKeys = true))`)
  await page.keyboard.press('Escape')
  // Its answer comes after the app has heard of the key, and a window that is hidden has lost the keys by then.
  const hasLostKeys = await page.evaluate('metalbar.ask("appState").then(() => globalThis.hasLostKeys === true)')
  expect([hasLostKeys, (await app.look()).windows[0]?.isVisible]).toEqual([false, true])
  await page.keyboard.press('Escape')
  await eventually(async () => (await app.look()).windows[0]?.isVisible === false)
})

test('torn off it is a window like any other, which a click elsewhere and Esc leave open, and closed it is one under the icon again', async ({
  skip,
}) => {
  skip(isOnElectron && process.platform !== 'darwin', 'only macOS has a Dock')
  await using browser = await startShellBrowser()
  await using app = await ShellApp.start({ preferences: {}, chromium: browser.endpoint })
  await app.icon('disconnected')
  const inDock = async () => (await app.look()).isInDock
  const before = await inDock()
  await app.choose('This app', 'Open in its own window')
  const page = await browser.window()
  await untilVisible(app)
  await app.ask({ do: 'clickElsewhere' })
  await page.keyboard.press('Escape')
  // Its answer comes after the app has heard of the key.
  await page.evaluate('metalbar.ask("appState")')
  await app.ask({ do: 'clickIcon' })
  const tornOff = (await app.look()).windows.map(({ isVisible, hasFrame }) => [isVisible, hasFrame])
  const meanwhile = await inDock()
  await app.ask({ do: 'keys', accelerator: 'Command+W' })
  const closed = (await app.look()).windows
  await eventually(async () => !(await inDock()), { what: 'the Dock without an icon' })
  await app.ask({ do: 'clickIcon' })
  await untilVisible(app)
  expect([before, meanwhile, tornOff, closed, (await app.look()).windows[0]?.hasFrame]).toEqual([
    false,
    true,
    [[true, true]],
    [],
    false,
  ])
})

test('its page tears it off to a window of its own, at the service that a person looks at, and hides it', async ({
  skip,
}) => {
  skip(isOnElectron && process.platform !== 'darwin', 'only macOS has a Dock')
  await using shell = await shellWorld()
  const { world, browser, app } = shell
  const page = await shell.open()
  world.apply('tiny')
  await page.getByRole('option', { name: 'tiny' }).click()
  const stop = { name: 'Stop', exact: true }
  await page.getByRole('button', stop).waitFor()
  await page.getByRole('button', { name: 'Hide this window' }).click()
  await eventually(async () => (await app.look()).windows[0]?.isVisible === false, { what: 'the window to be hidden' })
  await app.ask({ do: 'clickIcon' })
  await untilVisible(app)
  const under = await app.look()
  const isGone = page.waitForEvent('close')
  await page.getByRole('button', { name: 'Open in its own window' }).click()
  await isGone
  await untilVisible(app)
  const own = await browser.window()
  await own.getByRole('button', stop).waitFor()
  const tornOff = await app.look()
  expect({
    under: [under.windows.map(({ hasFrame }) => hasFrame), under.isInDock],
    tornOff: [tornOff.windows.map(({ hasFrame }) => hasFrame), tornOff.isInDock],
    controls: await own.getByRole('group', { name: 'Window', exact: true }).count(),
    warnings: (await app.log()).split('\n').filter((line) => line.includes('a request of the window failed')),
  }).toEqual({ under: [[false], false], tornOff: [[true], true], controls: 0, warnings: [] })
})

test('Settings of the menu opens that part of the window, and a model its own', async () => {
  await using shell = await shellWorld()
  const { world, browser, app } = shell
  world.apply('tiny')
  await app.icon('serving')
  await app.choose('Settings…')
  const page = await browser.window()
  const settings = page.getByRole('tab', { name: 'Settings', selected: true })
  await settings.waitFor()
  await page.evaluate("document.title = 'the same page'")
  await page.getByRole('tab', { name: 'Models' }).click()
  await settings.waitFor({ state: 'detached' })
  await app.choose('Settings…')
  await settings.waitFor()
  await app.choose('● tiny', 'Show in window')
  await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
  expect(await page.title()).toBe('the same page')
})

test('a page that loads itself again is followed again, and goes nowhere else', async () => {
  await using shell = await shellWorld()
  const { browser, app } = shell
  await app.choose('Open Metalbar')
  const page = await browser.window()
  await page.getByText('Live').waitFor()
  await page.evaluate("document.title = 'the page before'")
  await page.evaluate('location.reload()').catch(() => undefined)
  await eventually(async () => (await page.title()) !== 'the page before', { what: 'the page to be another' })
  await page.getByText('Live').waitFor()
})

test('a page that crashes is made anew once; twice within a minute it stays closed, the menu says so, and what serves goes on', async () => {
  await using shell = await shellWorld()
  const { world, app } = shell
  const pid = await app.serve(world, 'tiny')
  await app.choose('Open Metalbar')
  await untilVisible(app)
  await app.ask({ do: 'crashPage' })
  await untilVisible(app)
  await app.ask({ do: 'crashPage' })
  const isSaid = async () => JSON.stringify(await app.menu()).includes('The window crashed twice')
  expect([(await app.look()).windows, await isSaid(), lives(pid)]).toEqual([[], true, true])
  await app.choose('Open Metalbar')
  await untilVisible(app)
  expect(await isSaid()).toBe(false)
})

test('the page reaches nothing but the bridge: no Node, no other page, no other window', async () => {
  await using browser = await startShellBrowser()
  await using app = await ShellApp.start({ preferences: {}, chromium: browser.endpoint })
  await app.icon('disconnected')
  await app.ask({ do: 'clickIcon' })
  const page = await browser.window()
  await page
    .getByText(/kubeconfig/i)
    .first()
    .waitFor()
  const inPage = await page.evaluate(
    () =>
      [
        typeof require,
        typeof process,
        typeof Reflect.get(globalThis, 'electronSend'),
        Object.isFrozen(Reflect.get(globalThis, 'metalbar')),
      ] as const,
  )
  await page.evaluate('void (location.href = "https://example.com/")')
  await page.evaluate('void (globalThis.opened = window.open("https://example.com/"))')
  // Electron answers null at once.
  await eventually(() => page.evaluate<boolean>('opened === null || opened.closed'), { what: 'no other window' })
  const bridge = await page.evaluate(
    `metalbar.ask('command', { requestId: '${randomUUID()}', command: { name: 'format' } })`,
  )
  expect({ inPage, url: (await app.look()).windows[0]?.url, bridge }).toEqual({
    inPage: ['undefined', 'undefined', 'undefined', true],
    url: 'app://metalbar/index.html',
    bridge: { ok: false, failure: { code: 'misunderstood', message: expect.any(String) as unknown } },
  })
})

const asOnStandIn = { bounds: { x: 812, y: 30, width: 400, height: 620 }, background: '#f3f3f5' }

/** Electron shows where its window is on whatever screen there is, in that one's appearance, and not that it is a panel. */
const asOnThisScreen = {
  bounds: expect.objectContaining({ width: 400, height: 620 }) as unknown,
  background: expect.stringMatching(/^#(f3f3f5|1c1c1f)$/) as unknown,
}

const untilVisible = (app: ShellApp) =>
  eventually(async () => (await app.look()).windows[0]?.isVisible, { what: 'the window to be seen' })
