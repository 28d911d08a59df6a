import type { Page } from 'playwright'
import type { SettingPage } from '../../src/renderer/settings-draft.ts'

/** Turns the settings to a page. */
export const turnTo = (page: Page, name: SettingPage): Promise<void> =>
  page.getByRole('listbox', { name: 'Pages of the settings' }).getByRole('option', { name, exact: true }).click()

/** Opens what is told of a setting. */
export const tell = (page: Page, title: string): Promise<void> =>
  page.locator(`summary[aria-label="About ${title}"]`).click()

/** Unfolds all groups of what few need. */
export async function unfoldAdvanced(page: Page): Promise<void> {
  await turnTo(page, 'Advanced')
  const groups = page.locator('details[id^="advanced-"] > summary')
  await groups.first().waitFor()
  for (const group of await groups.all()) await group.click()
}
