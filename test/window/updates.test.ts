import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()
const actionsOf = (asked: readonly { readonly verb: string; readonly content: unknown }[]) =>
  asked.filter(({ verb }) => verb === 'update').map(({ content }) => content)

test('an update is looked for, downloaded and installed by one press each, and the window follows its download', async () => {
  await using window = await show(scenes['update-unknown'])
  const { page, app } = window
  await page.getByRole('button', { name: 'Check for updates' }).click()
  await page.getByRole('button', { name: 'Download it' }).click()
  await page.getByText('41.0 MB of 98.0 MB').waitFor()
  const percent = await page.getByRole('progressbar', { name: 'Download of the update' }).getAttribute('aria-valuenow')
  app.state = { ...app.state, update: { step: 'downloaded', version: '1.2.3' } }
  await page.getByRole('button', { name: 'Restart to update' }).waitFor()
  await page.getByRole('tab', { name: 'Services' }).click()
  await page.getByRole('button', { name: 'Restart to update' }).click()
  await page.getByText('macOS checks who signed Metalbar 1.2.3').waitFor()
  expect({ percent, asked: actionsOf(app.asked) }).toEqual({ percent: '41', asked: ['look', 'download', 'install'] })
})

test.each(['update-installed', 'update-undone', 'update-failed'] as const)(
  'what is said above the services goes once it is dismissed: %s',
  async (name) => {
    await using window = await show(scenes[name])
    const { page, app } = window
    const dismiss = page.getByRole('button', { name: 'Dismiss the message about the update' })
    await dismiss.click()
    await eventually(async () => (await dismiss.count()) === 0)
    expect(actionsOf(app.asked)).toEqual(['dismiss'])
  },
)
