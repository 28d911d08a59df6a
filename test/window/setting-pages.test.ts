import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { turnTo } from './setting-pages.ts'
import { useStage } from './stage.ts'

const show = useStage()

test.each([
  { scene: scenes.settings, keys: ['ArrowRight', 'ArrowDown', 'ArrowLeft', 'End'] },
  { scene: scenes['settings-wide'], keys: ['ArrowUp', 'ArrowDown', 'ArrowDown', 'End'] },
])('arrow keys turn from page to page, and Tab goes on into the page: $keys', async ({ scene, keys }) => {
  await using window = await show(scene)
  const { page } = window
  const list = page.getByRole('listbox', { name: 'Pages of the settings' })
  await list.getByRole('option', { selected: true }).focus()
  const turned: string[] = []
  for (const key of keys) {
    await page.keyboard.press(key)
    const name = await list.getByRole('option', { selected: true }).innerText()
    await page.getByRole('group', { name, exact: true }).waitFor()
    turned.push(name)
  }
  await page.keyboard.press('Tab')
  const isInside = await page.getByRole('group', { name: 'Power', exact: true }).locator(':focus').count()
  expect([turned, isInside]).toEqual([
    scene === scenes.settings ? ['Cluster', 'Runtimes', 'Models', 'Power'] : ['Network', 'Memory', 'Models', 'Power'],
    1,
  ])
})

test('Control+F comes to the search from a field, what is found can be set there, and Escape clears it and nothing else', async () => {
  await using window = await show(scenes['settings-runtimes'])
  const { page } = window
  const search = page.getByRole('searchbox', { name: 'Search settings' })
  await page.getByLabel('Time for requests to finish', { exact: true }).focus()
  await page.keyboard.press('Control+f')
  await search.and(page.locator(':focus')).waitFor()
  await page.keyboard.type('log detail')
  await page.getByRole('status').getByText('1 found').waitFor()
  await page.getByRole('radiogroup', { name: "Detail of the agent's log" }).waitFor({ state: 'detached' })
  await page.getByText('Usual').waitFor()
  await page.evaluate(`{
    window.escapes = 0
    addEventListener('keydown', ({ key, defaultPrevented }) => {
      if (key === 'Escape' && !defaultPrevented) window.escapes += 1
    })
  }`)
  await search.press('Escape')
  await page.getByRole('group', { name: 'Runtimes', exact: true }).waitFor()
  const cleared = [await search.inputValue(), await page.evaluate('window.escapes')]
  await search.press('Escape')
  expect([...cleared, await page.evaluate('window.escapes')]).toEqual(['', 0, 1])
})

test('a part of a page that is no setting is found too, and its link leads there', async () => {
  await using window = await show(scenes.settings)
  const { page } = window
  await page.getByRole('searchbox', { name: 'Search settings' }).fill('huggingface.co token')
  await page.getByRole('button', { name: 'Hugging Face token', exact: true }).click()
  await page.getByLabel('Token', { exact: true }).and(page.locator(':focus')).waitFor()
  await page.getByRole('option', { name: 'Models', exact: true, selected: true }).waitFor()
  expect(await page.getByRole('searchbox', { name: 'Search settings' }).inputValue()).toBe('')
})

test('one draft goes over all pages: the bar counts its changes and leads to the page of each', async () => {
  await using window = await show(scenes['settings-runtimes'])
  const { page, agent } = window
  const field = page.getByLabel('Time for requests to finish', { exact: true })
  await field.fill('45s')
  await turnTo(page, 'Power')
  await page.getByText('Measure power', { exact: true }).click()
  await page.getByText('2 changes, not applied:').waitFor()
  await page.getByRole('button', { name: 'Show Power' }).waitFor()
  await page.getByRole('button', { name: 'Show Runtimes' }).click()
  await field.and(page.locator(':focus')).waitFor()
  const kept = await field.inputValue()
  await page.getByRole('button', { name: 'Apply' }).click()
  await eventually(() => agent.asked.length === 1)
  expect([kept, agent.asked[0]?.command]).toEqual([
    '45s',
    { name: 'updateSettings', settings: { drainLimitMs: 45_000, applePowerEnabled: true } },
  ])
})

test('a value that cannot be applied leads from every page to its field, also one that was searched for', async () => {
  await using window = await show(scenes['settings-found'])
  const { page } = window
  await page.getByRole('searchbox', { name: 'Search settings' }).fill('loads without progress')
  const field = page.getByLabel('Load timeout', { exact: true })
  await field.fill('soon')
  await turnTo(page, 'Cluster')
  await page.getByText('1 value cannot be applied:').waitFor()
  const isDisabled = await page.getByRole('button', { name: 'Apply' }).isDisabled()
  await page.getByRole('button', { name: 'Show Load timeout' }).click()
  await field.and(page.locator(':focus')).waitFor()
  await page.getByText('It must be a duration such as 30s or 2m, from 1s to 24h').filter({ visible: true }).waitFor()
  expect([isDisabled, await field.inputValue()]).toEqual([true, 'soon'])
})

test('what the agent refuses for one of the settings leads to that one', async () => {
  await using window = await show(scenes['settings-cluster'])
  const { page, agent } = window
  await page.getByLabel('Kubeconfig', { exact: true }).fill('/gone')
  await turnTo(page, 'Runtimes')
  await page.getByLabel('Time for requests to finish', { exact: true }).fill('45s')
  const message = 'Nothing is changed: /gone is not there.'
  agent.answers.push({ outcome: 'refused', by: 'agent', message, setting: 'kubeconfig' })
  await page.getByRole('button', { name: 'Apply' }).click()
  await page.getByText(message).waitFor()
  await page.getByRole('button', { name: 'Show Kubeconfig' }).click()
  await page.getByLabel('Kubeconfig', { exact: true }).and(page.locator(':focus')).waitFor()
})

test('a link to a setting opens its page, from whatever view', async () => {
  await using window = await show(scenes.settings)
  const { page } = window
  const arrives = (id: string) =>
    eventually(() =>
      page.evaluate<boolean>(`document.querySelector('#${id}')?.contains(document.activeElement) ?? false`),
    )
  const led: boolean[] = []
  for (const id of ['drainLimitMs', 'memoryFraction', 'updates']) {
    await page.evaluate("location.hash = '#models'")
    await page.getByRole('heading', { name: 'Models', level: 2 }).waitFor()
    await page.evaluate(`location.hash = '#settings/${id}'`)
    led.push(await arrives(id))
  }
  await page.getByRole('option', { name: 'General', exact: true, selected: true }).waitFor()
  expect(led).toEqual([true, true, true])
})
