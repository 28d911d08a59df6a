import type { MenuEntry } from '../../src/main/tray/menu-entries.ts'

/** As a person reads it: what cannot be chosen is in brackets, what lies below is indented. */
export function menuText(entries: readonly MenuEntry[], indent = ''): string[] {
  return entries.flatMap((entry) => {
    if (entry.kind === 'separator') return [`${indent}-`]
    const { label, action, isChecked, entries: below } = entry
    const text = action === undefined && below === undefined ? `(${label})` : label
    return [`${indent}${isChecked === true ? '✓ ' : ''}${text}`, ...menuText(below ?? [], `${indent}  `)]
  })
}
