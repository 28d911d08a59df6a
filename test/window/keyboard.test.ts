import { expect, test } from 'vitest'
import { LinkError } from '../../src/contract/client.ts'
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

const reasonNotKnown = 'The cluster does not answer.'

test.each([
  { scene: 'does-not-fit', press: 'Evict llama-3.3-70b' },
  { scene: 'settings-network', press: 'Use 100.64.0.10' },
  { scene: 'no-runtime', press: 'Use 100.64.0.10 (utun4)' },
  { scene: 'no-answer', press: 'Try now' },
] as const)(
  '$press is sent once, keeps the focus meanwhile, and leaves it at what came of it',
  async ({ scene, press }) => {
    await using window = await show(scenes[scene])
    const { page, agent } = window
    const button = page.getByRole('button', { name: press, exact: true })
    await button.focus()
    await page.keyboard.press('Enter')
    await page.keyboard.press('Enter')
    await eventually(() => agent.asked.length > 0)
    await page.keyboard.press('Enter')
    const focused = button.and(page.locator(':focus'))
    await focused.waitFor()
    agent.answer({ outcome: 'failed', message: 'It did not work.' })
    await page.getByText('It did not work.').waitFor()
    expect({ asked: agent.asked.length, isFocused: await focused.count() }).toEqual({ asked: 1, isFocused: 1 })
  },
)

test('the focus goes to what came of a choice whose button is gone', async () => {
  await using window = await show(scenes['settings-network'])
  const { page, agent } = window
  await page.getByRole('button', { name: 'Use 100.64.0.10' }).focus()
  await page.keyboard.press('Enter')
  await eventually(() => agent.asked.length === 1)
  const { hostAddresses } = agent.known
  if (hostAddresses === undefined) throw new Error('This scene has addresses.')
  agent.known.hostAddresses = {
    ...hostAddresses,
    automatic: false,
    addresses: hostAddresses.addresses.map((one) => ({ ...one, inUse: one.address === '100.64.0.10' })),
  }
  agent.answer({ outcome: 'done', message: 'Pods are told 100.64.0.10.' })
  await page.getByRole('button', { name: 'Use 100.64.0.10' }).waitFor({ state: 'detached' })
  await page.locator(':focus').getByText('Pods are told 100.64.0.10.').waitFor()
})

test('a source that was looked up leaves the focus in its field', async () => {
  await using window = await show(scenes['add-fits'])
  const { page } = window
  const field = page.getByLabel('Model', { exact: true })
  await field.fill('llama-3.1-8b')
  const look = page.getByRole('button', { name: 'Look it up' })
  await look.focus()
  await look.and(page.locator(':focus')).waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('slider', { name: 'Context' }).waitFor()
  await field.and(page.locator(':focus')).waitFor()
})

test.each([
  { scene: scenes.delete, press: undefined, safe: 'Keep', after: 'Delete phi-4-mini…' },
  { scene: scenes.models, press: 'Delete smollm-360m', safe: 'Keep', after: 'Delete smollm-360m' },
  { scene: scenes.models, press: 'Delete unused models…', safe: 'Keep', after: 'Delete unused models…' },
  { scene: scenes['settings-cluster'], press: 'Serve prod-eu', safe: 'Stay', after: 'Serve prod-eu' },
])('Escape in the question of $after is “$safe”, and closes nothing else', async ({ scene, press, safe, after }) => {
  await using window = await show(scene)
  const { page, agent } = window
  if (press !== undefined) await page.getByRole('button', { name: press, exact: true }).click()
  await page.getByRole('button', { name: safe, exact: true }).and(page.locator(':focus')).waitFor()
  await page.evaluate(`addEventListener('keydown', (event) => { window.reached = !event.defaultPrevented })`)
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: after, exact: true }).and(page.locator(':focus')).waitFor()
  expect({ asked: agent.asked, closes: (await page.evaluate('window.reached')) ?? false }).toEqual({
    asked: [],
    closes: false,
  })
})

test('what a deletion would take is asked once more after it could not be told', async () => {
  await using window = await show(scenes.detail)
  const { page, agent } = window
  agent.replies.deletion = () => {
    throw new LinkError('refused', reasonNotKnown)
  }
  await page.getByRole('button', { name: 'Delete phi-4-mini…' }).click()
  await page.getByText(reasonNotKnown).waitFor()
  const { deletion } = scenes.delete.agent().known
  if (deletion === undefined) throw new Error('This scene has something to delete.')
  agent.replies.deletion = () => deletion
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('button', { name: 'Delete phi-4-mini', exact: true }).waitFor()
})

test('where the focus is can be seen', async () => {
  await using window = await show(scenes.detail)
  const { page } = window
  for (const name of [/Copy address/, /Services/, /^Stop/, /^Restart/, /^Copy curl$/]) {
    const button = page.getByRole('button', { name })
    await eventually(async () => {
      await page.keyboard.press('Tab')
      return button.evaluate((element) => element === document.activeElement)
    })
    const outline = await button.evaluate((element) => getComputedStyle(element).outlineStyle)
    expect({ name, outline }).toEqual({ name, outline: 'solid' })
  }
})
