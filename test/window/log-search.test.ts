import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

const chunk = (lines: string[]) => ({
  lines,
  start: { fileId: 'run-2', offset: 2_400 },
  end: { fileId: 'run-2', offset: 2_500 },
})

const field = (page: Page) => page.getByLabel('Search the log')
const lines = (page: Page) => page.getByRole('log').locator('p').allTextContents()
const said = (page: Page) => page.getByRole('search').getByRole('status').textContent()

test('only the lines that contain it are shown and counted, in upper or lower case', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page } = window
  const all = await lines(page)
  await field(page).fill('LOADE')
  await eventually(async () => (await said(page)) === '2 lines')
  const found = await lines(page)
  await field(page).fill('')
  await eventually(async () => (await said(page)) === '')
  expect({ found, after: await lines(page) }).toEqual({
    found: all.filter((line) => line.includes('loade')),
    after: all,
  })
})

test('the log goes on while it is searched, and what comes counts', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await eventually(() => agent.logStreams.length === 1)
  await field(page).fill('out of memory')
  await eventually(async () => (await said(page)) === 'No match')
  agent.print(chunk(['ggml_metal: out of memory']))
  await eventually(async () => (await said(page)) === '1 line')
  const box = page.getByRole('log')
  expect({
    atEnd: await box.evaluate((it) => it.scrollHeight - it.scrollTop - it.clientHeight < 2),
    paused: await page.getByRole('button', { name: 'Follow' }).count(),
  }).toEqual({ atEnd: true, paused: 0 })
})

test('the shortcut for searching goes to the field, and Escape first ends the search', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page } = window
  await page.getByRole('log').focus()
  await page.keyboard.press('Control+f')
  await page.keyboard.type('metal')
  await eventually(async () => (await said(page)) === '1 line')
  await page.keyboard.press('Escape')
  const after = { text: await field(page).inputValue(), said: await said(page) }
  const isOpen = await page.getByRole('heading', { name: 'phi-4-mini' }).isVisible()
  await page.keyboard.press('Escape')
  await page.getByRole('heading', { name: 'phi-4-mini' }).waitFor({ state: 'hidden' })
  expect({ after, isOpen }).toEqual({ after: { text: '', said: '' }, isOpen: true })
})

test('the search goes on in the previous run', async () => {
  await using window = await show(scenes['log-previous'])
  const { page } = window
  await field(page).fill('failed')
  await eventually(async () => (await said(page)) === '1 line')
  await page.getByRole('radio', { name: 'This run' }).click()
  await eventually(async () => (await said(page)) === 'No match')
  await page.getByRole('radio', { name: 'Previous' }).click()
  await eventually(async () => (await said(page)) === '1 line')
  expect(await field(page).inputValue()).toBe('failed')
})

test('the app is asked to show the file of the run that is looked at', async () => {
  await using window = await show(scenes['log-previous'])
  const { page, revealed } = window
  await page.getByRole('button', { name: 'Show file' }).click()
  await eventually(() => revealed.length === 1)
  expect(revealed).toEqual([{ service: { namespace: 'default', name: 'phi-4-mini' }, run: 'previous' }])
})
