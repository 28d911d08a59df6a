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
const marked = (page: Page) => page.locator('mark').allTextContents()
const said = (page: Page) => page.getByRole('search').getByRole('status').textContent()
const lookedAt = (page: Page) =>
  page.locator('mark[data-current=true]').evaluateAll((marks) => marks.map((mark) => mark.parentElement?.textContent))

test('matches are marked and counted, and the keyboard goes from one to the next and back', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page } = window
  await field(page).fill('LOADE')
  await eventually(async () => (await said(page)) === '3 matches')
  const all = await marked(page)
  const seen: unknown[] = []
  for (const key of ['Enter', 'Enter', 'Enter', 'Enter', 'Shift+Enter', 'Shift+Enter']) {
    await field(page).press(key)
    seen.push(await said(page))
  }
  expect({ all, seen, line: await lookedAt(page) }).toEqual({
    all: ['loade', 'loade', 'loade'],
    seen: ['1 of 3', '2 of 3', '3 of 3', '1 of 3', '3 of 3', '2 of 3'],
    line: [expect.stringContaining('llama_model_loader') as unknown],
  })
})

test('the log goes on while it is searched, and what comes counts', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await eventually(() => agent.logStreams.length === 1)
  await field(page).fill('out of memory')
  await eventually(async () => (await said(page)) === 'No match')
  agent.print(chunk(['ggml_metal: out of memory']))
  await eventually(async () => (await said(page)) === '1 match')
  const box = page.getByRole('log')
  expect({
    atEnd: await box.evaluate((it) => it.scrollHeight - it.scrollTop - it.clientHeight < 2),
    paused: await page.getByRole('button', { name: 'Follow' }).count(),
  }).toEqual({ atEnd: true, paused: 0 })
})

test('the match that is looked at stays in view whatever is printed', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await eventually(() => agent.logStreams.length === 1)
  await field(page).fill('apple clang')
  await field(page).press('Enter')
  agent.print(chunk(Array.from({ length: 200 }, (_, index) => `more ${index}`)))
  await page.getByText('Paused · 200 new lines').waitFor()
  const isInView = await page.getByRole('log').evaluate((box) => {
    const [outer, inner] = [box, box.querySelector('mark')].map((element) => element?.getBoundingClientRect())
    return outer !== undefined && inner !== undefined && inner.top >= outer.top && inner.bottom <= outer.bottom
  })
  expect({ isInView, said: await said(page) }).toEqual({ isInView: true, said: '1 of 1' })
})

test('the shortcut for searching goes to the field, and Escape first ends the search', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page } = window
  await page.getByRole('log').focus()
  await page.keyboard.press('Control+f')
  await page.keyboard.type('metal')
  await eventually(async () => (await marked(page)).length > 0)
  await page.keyboard.press('Escape')
  const after = { text: await field(page).inputValue(), marks: await marked(page) }
  const isOpen = await page.getByRole('heading', { name: 'phi-4-mini' }).isVisible()
  await page.keyboard.press('Escape')
  await page.getByRole('heading', { name: 'phi-4-mini' }).waitFor({ state: 'hidden' })
  expect({ after, isOpen }).toEqual({ after: { text: '', marks: [] }, isOpen: true })
})

test('the search goes on in the previous run', async () => {
  await using window = await show(scenes['log-previous'])
  const { page } = window
  await field(page).fill('failed')
  await eventually(async () => (await said(page)) === '1 match')
  await page.getByRole('radio', { name: 'This run' }).click()
  await eventually(async () => (await said(page)) === 'No match')
  await page.getByRole('radio', { name: 'Previous' }).click()
  await eventually(async () => (await said(page)) === '1 match')
  expect(await field(page).inputValue()).toBe('failed')
})

test('the app is asked to show the file of the run that is looked at', async () => {
  await using window = await show(scenes['log-previous'])
  const { page, revealed } = window
  await page.getByRole('button', { name: 'Show file' }).click()
  await eventually(() => revealed.length === 1)
  expect(revealed).toEqual([{ service: { namespace: 'default', name: 'phi-4-mini' }, run: 'previous' }])
})
