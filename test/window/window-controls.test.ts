import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test.each([
  ['services', { view: 'services' }],
  ['detail', { service: 'ready' }],
  ['models', { view: 'models' }],
] as const)('%s under the icon is torn off where a person is, and hidden, by the keyboard', async (scene, at) => {
  await using window = await show(scenes[scene])
  const { page, app } = window
  const controls = page.getByRole('group', { name: 'Window', exact: true })
  await controls.getByRole('button', { name: 'Open in its own window' }).press('Enter')
  await controls.getByRole('button', { name: 'Hide this window' }).press('Enter')
  const asked = await eventually(() => {
    const ofWindow = app.asked.filter(({ verb }) => verb === 'tearOff' || verb === 'hide')
    return ofWindow.length === 2 && ofWindow
  })
  expect(asked).toEqual([{ verb: 'tearOff', content: at }, { verb: 'hide' }])
})

test('why the app did not do it is said beside them', async () => {
  await using window = await show(scenes.services)
  const { page, app } = window
  const hide = page.getByRole('button', { name: 'Hide this window' })
  await hide.waitFor()
  app.refusal = 'That did not work; the log of the app says why.'
  await hide.click()
  await page.getByRole('alert').getByText('That did not work').waitFor()
})

test('torn off, the window has those of its title bar alone', async () => {
  await using window = await show({ ...scenes.services, app: { isTornOff: true } })
  const { page, app } = window
  await eventually(() => app.asked.some(({ verb }) => verb === 'appState'))
  await page.getByRole('button', { name: /^Copy address/ }).waitFor()
  expect(await page.getByRole('group', { name: 'Window', exact: true }).count()).toBe(0)
})
