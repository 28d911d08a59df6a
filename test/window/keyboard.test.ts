import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test('a service is found, opened, stopped and left without a mouse', async () => {
  await using window = await show(scenes.services)
  const { page, agent } = window
  const focused = () => page.evaluate(() => document.querySelector('body :focus')?.textContent ?? '')
  const tabUntil = (text: string) =>
    eventually(async () => {
      await page.keyboard.press('Tab')
      return (await focused()).includes(text)
    })

  await tabUntil('phi-4-mini')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowUp')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'phi-4-mini' }).waitFor()
  await tabUntil('Stop')
  await page.keyboard.press('Enter')
  await eventually(() => agent.asked.length === 1)
  expect(agent.asked[0]?.command).toEqual({ name: 'stop', service: { namespace: 'default', name: 'phi-4-mini' } })

  await page.keyboard.press('Escape')
  await eventually(async () => (await focused()).includes('phi-4-mini'))
  await page.keyboard.press('ArrowDown')
  await eventually(async () => (await focused()).includes('qwen3-30b-a3b'))
})

test('the focus stays where it is on the way past an open service, and on the safe answer of a question', async () => {
  await using window = await show(scenes.models)
  const { page } = window
  const isFocused = (role: 'tab' | 'button', name: string) => async () =>
    (await page.getByRole(role, { name, exact: true }).and(page.locator(':focus')).count()) === 1
  await page.getByRole('button', { name: 'Delete smollm-360m' }).focus()
  await page.keyboard.press('Enter')
  await eventually(isFocused('button', 'Keep'))
  await page.keyboard.press('Enter')
  await eventually(isFocused('button', 'Delete smollm-360m'))

  await page.getByRole('tab', { name: 'Services' }).click()
  await page.getByRole('option', { name: 'phi-4-mini' }).focus()
  await page.keyboard.press('Enter')
  await eventually(async () => (await page.locator('h2:focus').count()) === 1)
  await page.getByRole('tab', { name: 'Services' }).focus()
  await page.keyboard.press('ArrowRight')
  await page.getByRole('heading', { name: 'Models' }).waitFor()
  await page.keyboard.press('ArrowLeft')
  await page.getByRole('heading', { name: 'phi-4-mini' }).waitFor()
  expect(await isFocused('tab', 'Services')()).toBe(true)
})

test('where the focus is can be seen', async () => {
  await using window = await show(scenes.detail)
  const { page } = window
  for (const name of ['Copy address', 'Services', 'Stop', 'Restart', 'Copy curl']) {
    const button = page.getByRole('button', { name })
    await eventually(async () => {
      await page.keyboard.press('Tab')
      return button.evaluate((element) => element === document.activeElement)
    })
    const outline = await button.evaluate((element) => getComputedStyle(element).outlineStyle)
    expect({ name, outline }).toEqual({ name, outline: 'solid' })
  }
})
