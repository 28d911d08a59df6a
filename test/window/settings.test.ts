import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { settingNames } from '../../src/contract/settings.ts'
import { startSettingNames } from '../../src/agent-core/settings/start-rows.ts'
import { settingSections } from '../../src/contract/settings-table.ts'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { turnTo } from './setting-pages.ts'
import { useStage } from './stage.ts'

const show = useStage()
const done = { outcome: 'done', message: 'Done.' } as const

test('each setting of the table is on one page, and the five that people change most on the first one too', async () => {
  await using window = await show(scenes.settings)
  const { page } = window
  const titles = () => page.locator('[id]:has(> details > summary[aria-label^="About "])')
  const shown: string[] = []
  let first: string[] = []
  for (const name of settingSections) {
    await turnTo(page, name)
    await page.getByRole('group', { name, exact: true }).waitFor()
    await eventually(async () => name === 'General' || (await titles().count()) > 0)
    const ids = await titles().evaluateAll((rows) => rows.map(({ id }) => id))
    if (name === 'General') first = ids.slice(0, 5)
    shown.push(...ids.filter((id) => name !== 'General' || !first.includes(id)))
  }
  expect(shown.toSorted()).toEqual([...settingNames, ...startSettingNames].toSorted())
  expect(first).toEqual(['namespace', 'downloadBytesPerSecond', 'memoryFraction', 'evictionEnabled', 'sleepPolicy'])
})

test('what counts from the start says how it is stated, as a line to copy', async () => {
  await using window = await show(scenes.settings)
  const { page, agent } = window
  await turnTo(page, 'Network')
  for (const summary of await page.locator('summary[aria-label^="About "]').all()) await summary.click()
  const shown = await page.locator('details pre').allInnerTexts()
  const start = agent.known.settings?.start ?? []
  const stated = start.filter(({ section }) => section === 'Network').map(({ flag }) => flag)
  expect([shown.toSorted(), stated.length > 5]).toEqual([stated.toSorted(), true])
  await page.getByRole('button', { name: 'Copy line for Ports of model servers' }).click()
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe('--port-range=30000-30099')
})

test('an amount of memory is a number with a unit, and what it comes to is said', async () => {
  await using window = await show(scenes['settings-wide'])
  const { page, agent } = window
  const field = page.getByLabel('Fixed amount of memory for models', { exact: true })
  const apply = page.getByRole('button', { name: 'Apply' })
  await field.fill('24G')
  await page.getByText('= 24.0 GB (22.4 GiB).').waitFor()
  await field.fill('24Gi')
  await page.getByText('= 25.8 GB (24 GiB).').waitFor()
  await field.fill('much')
  await page.getByText('It must be a size such as 20Mi, from 1Mi to 100T.').waitFor()
  const refused = await apply.isDisabled()
  await field.fill('')
  await page.getByText('No changes').waitFor()
  await field.fill('800 MiB')
  await apply.click()
  await eventually(() => agent.asked.length === 1)
  expect([refused, agent.asked[0]?.command]).toEqual([
    true,
    { name: 'updateSettings', settings: { memoryBudgetBytes: 800 * 2 ** 20 } },
  ])
})

test('one of a few is chosen with the keyboard, and not applied before Apply', async () => {
  await using window = await show(scenes.settings)
  const { page, agent } = window
  await turnTo(page, 'Memory')
  const choice = page.getByRole('radiogroup', { name: 'Model with unknown memory need' })
  await choice.getByRole('radio', { name: 'Refuse it' }).focus()
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Space')
  await page.getByText('1 change, not applied').waitFor()
  const before = agent.asked.length
  agent.answers.push(done)
  await page.getByRole('button', { name: 'Apply' }).click()
  await eventually(() => agent.asked.length === 1)
  expect({ before, asked: agent.asked[0]?.command }).toEqual({
    before: 0,
    asked: { name: 'updateSettings', settings: { memoryCheckMode: 'warn' } },
  })
})

test("sudo's rule is looked at anew when a person comes back to the window", async () => {
  await using window = await show(scenes['settings-power-rule'])
  const { page, agent } = window
  const { powerRule: rule } = agent.known
  if (rule === undefined) throw new Error('This scene has a rule.')
  await page.getByText('Not installed: ').waitFor()
  expect(await ruleShown(page)).toBe(rule.rule.trim())
  agent.known.powerRule = { ...rule, state: 'installed' }
  await page.evaluate("dispatchEvent(new Event('focus'))")
  await page.getByText('Installed. sudo may run').waitFor()
})

test('the app keeps a token that is written in its settings, and nothing shows it again', async () => {
  await using window = await show(scenes['settings-models'])
  const { page, agent, app } = window
  const field = page.getByLabel('Token', { exact: true })
  const keep = page.getByRole('button', { name: 'Keep it: the Hugging Face token' })
  const before = { type: await field.getAttribute('type'), empty: await keep.isDisabled() }
  app.refusal = 'The token was not kept: the disk is full.'
  await field.fill(' hf_SecretOfThisPerson ')
  await keep.click()
  await page.getByText('The token was not kept: the disk is full.').waitFor()
  const stays = await field.inputValue()
  agent.known.hubLogin = { tokenSource: 'keychain' }
  await field.press('Enter')
  await page.getByText('kept by the app, encrypted with a key of the keychain').waitFor()
  await page.getByText('The app keeps a token').waitFor()
  const after = await field.inputValue()
  agent.known.hubLogin = { tokenSource: 'none' }
  await page.getByRole('button', { name: 'Remove the token' }).click()
  await page.getByRole('button', { name: 'Keep the token', exact: true }).press('Enter')
  const isKept = app.asked.every(({ verb }) => verb !== 'removeHubToken')
  await page.getByRole('button', { name: 'Remove the token' }).press('Enter')
  await page.getByRole('button', { name: 'Yes, remove it' }).click()
  await page.getByText('The app keeps no token.').waitFor()
  const asked = app.asked.filter(({ verb }) => verb.endsWith('HubToken'))
  expect({ before, stays, after, asked, isKept, isShown: (await page.content()).includes('SecretOf') }).toEqual({
    before: { type: 'password', empty: true },
    ...{ stays: ' hf_SecretOfThisPerson ', after: '', isShown: false, isKept: true },
    asked: [
      { verb: 'setHubToken', content: 'hf_SecretOfThisPerson' },
      { verb: 'setHubToken', content: 'hf_SecretOfThisPerson' },
      { verb: 'removeHubToken', content: undefined },
    ],
  })
})

test('what concerns the app takes effect at once, and says what macOS answered', async () => {
  await using window = await show(scenes.settings)
  const { page, app } = window
  const general = page.getByRole('group', { name: 'This app' })
  await general.getByText('Open at login', { exact: true }).click()
  await general.getByText('Metalbar opens when you log in.').waitFor()
  await general.getByRole('radio', { name: 'Keep in menu bar' }).click()
  await general.getByText('Notifications', { exact: true }).click()
  await general.getByText('Figures beside the icon', { exact: true }).click()
  await eventually(() => app.asked.filter(({ verb }) => verb === 'prefer').length === 3)
  app.state = { ...app.state, loginItem: 'requires-approval' }
  await page.evaluate("dispatchEvent(new Event('focus'))")
  await general.getByRole('button', { name: 'Open Login Items…' }).click()
  await eventually(() => app.asked.some(({ verb }) => verb === 'openPane'))
  expect(app.asked.filter(({ verb }) => verb !== 'appState').slice(-5)).toEqual([
    { verb: 'setLoginItem', content: true },
    { verb: 'prefer', content: { onQuit: 'keep' } },
    { verb: 'prefer', content: { notifications: false } },
    { verb: 'prefer', content: { showTitle: true } },
    { verb: 'openPane', content: 'loginItems' },
  ])
})

test("the app has Terminal install sudo's rule, and looks how it stands then", async () => {
  await using window = await show(scenes['settings-power-rule'])
  const { page, agent, app } = window
  const { powerRule: rule } = agent.known
  if (rule === undefined) throw new Error('This scene has a rule.')
  agent.known.powerRule = { ...rule, state: 'installed' }
  await page.getByRole('button', { name: 'Install the rule…' }).click()
  await page.getByText('Terminal did the install.').waitFor()
  await page.getByText('Installed. sudo may run').waitFor()
  await page.getByRole('button', { name: 'Remove the rule…' }).click()
  await page.getByText('Terminal did the remove.').waitFor()
  expect(app.asked.filter(({ verb }) => verb === 'changePowerRule').map(({ content }) => content)).toEqual([
    'install',
    'remove',
  ])
})

test('a path is chosen in a dialog, and is in the draft then', async () => {
  await using window = await show(scenes['settings-cluster'])
  const { page, app } = window
  app.chosenFile = '/Users/me/lab.kubeconfig'
  await page.getByRole('button', { name: 'Choose for Kubeconfig' }).click()
  await page.getByText('1 change, not applied').waitFor()
  expect(await page.getByLabel('Kubeconfig', { exact: true }).inputValue()).toBe('/Users/me/lab.kubeconfig')
})

const ruleShown = async (page: Page) => (await page.getByLabel('Rule', { exact: true }).innerText()).trim()

test('everything that was ever written is listed with where it is; only what is left on is removed', async () => {
  await using window = await show(scenes['settings-uninstall'])
  const { page, app } = window
  const group = page.getByRole('group', { name: 'Uninstall', exact: true })
  await group.getByText('One model serves: default/phi-4-mini.').waitFor()
  const switches = group.getByRole('switch')
  const isOn = async () => Promise.all((await switches.all()).map((one) => one.isChecked()))
  expect(await isOn()).toEqual([true, false, true, true])
  await group.getByText('Not known: The keychain does not answer: it is locked.').waitFor()
  await group.getByText('was not downloaded by Metalbar, so it stays.').waitFor()
  await group.getByText('Downloaded models · 2.5 GB').click()
  await group.getByText('The key of the token in the keychain').click()
  expect(await isOn()).toEqual([true, true, false, true])
  app.refusal = 'The agent does not end. Nothing was removed.'
  await group.getByRole('button', { name: 'Remove selected…' }).click()
  await group.getByRole('alert').getByText('The agent does not end.').waitFor()
  await group.getByRole('button', { name: 'Remove selected…' }).click()
  await eventually(() => app.asked.filter(({ verb }) => verb === 'uninstall').length === 2)
  expect(app.asked.at(-1)).toEqual({ verb: 'uninstall', content: ['cluster', 'state', 'models'] })
})
