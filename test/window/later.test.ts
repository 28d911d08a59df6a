import { expect, test } from 'vitest'
import { withSettings } from '../support/window/scene-agents.ts'
import { usePages } from './stage.ts'

const pages = usePages()

test('a part of the window that cannot be loaded says so, and is there once it can and the window is loaded again', async () => {
  let isGone = true
  await using window = await pages().open({
    agent: withSettings(),
    isMissing: (file) => isGone && file.includes('settings'),
  })
  const { page } = window
  await page.getByRole('tab', { name: 'Settings' }).click()
  await page.getByText('This part of the window could not be loaded').waitFor()
  await page.getByRole('tab', { name: 'Models' }).click()
  await page.getByRole('heading', { name: 'Models' }).waitFor()
  await page.getByRole('tab', { name: 'Settings' }).click()
  isGone = false
  await page.getByRole('button', { name: 'Reload the window' }).click()
  await page.getByRole('tab', { name: 'Settings' }).click()
  await page.getByLabel('Namespace', { exact: true }).waitFor()
})

test('what comes later is here before the agent can be gone', async () => {
  const asked: string[] = []
  await using window = await pages().open({
    agent: withSettings(),
    isMissing: (file) => {
      asked.push(file)
      return false
    },
  })
  const { page } = window
  const isAsked = (part: string) => asked.some((file) => file.includes(part) && file.endsWith('.js'))
  const missing = () => ['models', 'activity', 'settings', 'help', 'add-model'].filter((part) => !isAsked(part))
  await expect.poll(missing, { timeout: 10_000 }).toEqual([])
  const before = asked.length
  for (const name of ['Models', 'Activity', 'Settings']) {
    await page.getByRole('tab', { name }).click()
    await page.getByRole('heading', { name, level: 2 }).waitFor()
  }
  expect({ more: asked.slice(before), complaints: window.complaints }).toEqual({ more: [], complaints: [] })
})
