import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { eventually } from '../support/eventually.ts'
import { servingWorld, type ServingWorld } from '../support/serving-world.ts'
import { missingBrowser, startShellBrowser, type ShellBrowser } from '../support/shell-browser.ts'
import { lives, ShellApp } from '../support/shell-app.ts'
import { skipWhen } from '../support/skip.ts'

skipWhen(missingBrowser())

test('the menu opens the window, which shows a model come up and the file of its log, and stops it: the process is gone', async () => {
  await using world = await servingWorld()
  await using browser = await startShellBrowser()
  await using app = await startApp(world, browser)
  await app.icon('idle')
  await app.choose('Open Metalbar')
  const page = await browser.window()
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
  expect({ suspended: world.isSuspended('tiny'), complaints, windows: (await app.look()).windows }).toEqual({
    suspended: true,
    complaints: [],
    windows: [
      {
        isVisible: true,
        bounds: { x: 812, y: 30, width: 400, height: 620 },
        webPreferences: { sandbox: true, contextIsolation: true, nodeIntegration: false },
        url: 'app://metalbar/index.html',
      },
    ],
  })
})

test('a hidden window is sent nothing, and is right again when it is shown', async () => {
  await using world = await servingWorld()
  await using browser = await startShellBrowser()
  await using app = await startApp(world, browser)
  await app.icon('idle')
  await app.ask({ do: 'clickIcon' })
  const page = await browser.window()
  await page.getByText('Live').waitFor()
  await app.ask({ do: 'blur' })
  world.apply('tiny')
  await app.icon('serving')
  const seenWhileHidden = await page.getByRole('option', { name: 'tiny' }).count()
  await app.ask({ do: 'activate' })
  await page.getByRole('option', { name: 'tiny' }).getByText('Ready').waitFor()
  expect(seenWhileHidden).toBe(0)
})

test('the click that takes the focus from the window closes it and does not open it again', async () => {
  await using browser = await startShellBrowser()
  await using app = await ShellApp.start({ preferences: {}, chromium: browser.endpoint })
  await app.icon('disconnected')
  await app.ask({ do: 'clickIcon' })
  const visible = [(await app.look()).windows[0]?.isVisible]
  await app.ask({ do: 'clickIcon' })
  visible.push((await app.look()).windows[0]?.isVisible)
  expect(visible).toEqual([true, false])
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
    () => [typeof require, typeof process, Object.isFrozen(Reflect.get(globalThis, 'metalbar'))] as const,
  )
  await page.evaluate('void (location.href = "https://example.com/")')
  await page.evaluate('void window.open("https://example.com/")')
  const bridge = await page.evaluate(`metalbar.command({ name: 'format' }, '${randomUUID()}')`)
  expect({ inPage, url: (await app.look()).windows[0]?.url, bridge }).toEqual({
    inPage: ['undefined', 'undefined', true],
    url: 'app://metalbar/index.html',
    bridge: { ok: false, failure: { code: 'misunderstood', message: expect.any(String) as unknown } },
  })
})

function startApp(world: ServingWorld, browser: ShellBrowser): Promise<ShellApp> {
  return ShellApp.start({
    kubeconfig: world.sim.kubeconfig(),
    preferences: world.preferences,
    chromium: browser.endpoint,
  })
}
