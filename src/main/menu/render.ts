import type { MenuItemConstructorOptions } from 'electron'
import type { MenuDeed, MenuEntry } from './entries.ts'

/** The same as Electron takes it. */
export const templateOf = (entries: readonly MenuEntry[], onDeed: (deed: MenuDeed) => void) =>
  entries.map((entry) => itemOf(entry, onDeed))

function itemOf(entry: MenuEntry, onDeed: (deed: MenuDeed) => void): MenuItemConstructorOptions {
  if (entry.kind === 'separator') return { type: 'separator' }
  const { label, deed, accelerator, toolTip, isChecked, entries } = entry
  return {
    // A single one would mark the letter after it as a key, and not be shown.
    label: label.replaceAll('&', '&&'),
    enabled: deed !== undefined || entries !== undefined,
    ...(accelerator !== undefined && { accelerator }),
    ...(toolTip !== undefined && { toolTip }),
    ...(isChecked !== undefined && { type: 'checkbox', checked: isChecked }),
    ...(entries && { submenu: templateOf(entries, onDeed) }),
    ...(deed && { click: () => onDeed(deed) }),
  }
}
