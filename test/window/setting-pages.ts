import type { Page } from 'playwright'
import type { SettingSection } from '../../src/contract/settings-table.ts'

/** Turns the settings to a page. */
export const turnTo = (page: Page, name: SettingSection): Promise<void> =>
  page.getByRole('listbox', { name: 'Pages of the settings' }).getByRole('option', { name, exact: true }).click()

/** Opens what is told of a setting. */
export const tell = (page: Page, title: string): Promise<void> =>
  page.locator(`summary[aria-label="About ${title}"]`).click()
