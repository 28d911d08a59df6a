import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { settingNames, type SettingsPatch } from '../../src/contract/settings.ts'
import { startSettingNames } from '../../src/agent-core/settings/start-rows.ts'
import { settingSections } from '../../src/contract/settings-table.ts'
import type { HostedAgent } from '../../src/serve/host-agent.ts'
import { eventually } from '../support/eventually.ts'
import { servingWorld } from '../support/serving-world.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { openRealWindow, patienceMs } from './real-window.ts'
import { turnTo } from './setting-pages.ts'
import { useBrowser } from './stage.ts'

const browser = useBrowser()
let hosted: HostedAgent
let page: Page
let complaints: string[]
let parts: AsyncDisposableStack

beforeEach(async () => {
  parts = new AsyncDisposableStack()
  const world = parts.use(await servingWorld())
  ;({ hosted, page, complaints } = await openRealWindow({ browser: browser(), world, parts }))
  await page.getByRole('tab', { name: 'Settings' }).click()
})
afterEach(() => parts.disposeAsync())

test('a page in a browser sees each setting of the table, and beside what it may not set the line for a terminal', async () => {
  const found: string[] = []
  for (const name of settingSections) {
    await turnTo(page, name)
    const rows = page.locator('[id]:has(> details > summary[aria-label^="About "])')
    await rows.first().waitFor()
    const ids = await rows.evaluateAll((all) => all.map(({ id }) => id))
    found.push(...ids)
  }
  expect([...new Set(found)].toSorted()).toEqual([...settingNames, ...startSettingNames].toSorted())
  await turnTo(page, 'Network')
  await page.getByText('Port of health and metrics', { exact: true }).waitFor()
  expect(complaints).toEqual([])
})

test('an amount of memory that is set in the window is the budget', async () => {
  await turnTo(page, 'Memory')
  await page.getByLabel('Fixed amount of memory for models', { exact: true }).fill('800Mi')
  await turnTo(page, 'General')
  await page.getByRole('radiogroup', { name: "Detail of the agent's log" }).getByText('Warnings').click()
  await page.getByText('2 changes, not applied:').waitFor()
  await page.getByRole('button', { name: 'Apply' }).click()
  await eventually(() => hosted.door.get().memory?.budgetBytes === 800 * 2 ** 20, {
    timeoutMs: patienceMs,
    what: 'the budget',
  })
  await page.getByText('No changes').waitFor()
})

test('no token and no password reaches the page, only where they come from', async () => {
  const { dir } = parts.use(await temporaryFolder())
  const file = join(dir, 'token')
  await writeFile(file, 'hf_SecretOfThisPerson')
  const heard: string[] = []
  page.on('response', (response) => {
    void response.text().then(
      (text) => heard.push(text),
      () => undefined,
    )
  })
  await turnTo(page, 'Models')
  await set({ hubTokenFile: file, hubEndpoint: 'https://me:SecretOfTheMirror@mirror.lan/hub' })
  await page.getByText(`from the file ${file}`).waitFor()
  await page.getByText('https://mirror.lan/hub').waitFor()
  await eventually(() => heard.some((text) => text.includes('mirror.lan')), {
    timeoutMs: patienceMs,
    what: 'an answer',
  })
  expect(`${heard.join('\n')}${await page.content()}`).not.toMatch(/SecretOf/)
})

const set = (settings: SettingsPatch) =>
  hosted.door.command({ requestId: crypto.randomUUID(), command: { name: 'updateSettings', settings } })
