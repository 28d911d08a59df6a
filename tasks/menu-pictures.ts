import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { iconNames, iconOf } from '../src/main/tray/icon.ts'
import type { MenuEntry } from '../src/main/tray/menu-entries.ts'
import { menuOf } from '../src/main/tray/menu.ts'
import { menuScenes } from '../test/support/menu-scenes.ts'
import { findBrowser, startBrowser } from '../test/support/window/browser.ts'

/**
 * `node tasks/menu-pictures.ts`: a page of every state of the icon and its menu, submenus opened out, into out/menus. Drawn by Chromium
 * from the same data that macOS draws them of, so what it shows is what stands where, not how macOS looks.
 */
const root = join(import.meta.dirname, '..')
const target = join(root, 'out/menus')
const found = findBrowser()
if ('missing' in found) {
  console.error(`No pictures: ${found.missing}`)
  process.exit(1)
}

const images = new Map(
  await Promise.all(
    iconNames.map(async (name) => {
      const png = await readFile(join(root, `assets/tray/${name}Template@2x.png`), 'base64')
      return [name, `<img alt="${name}" src="data:image/png;base64,${png}" width="18" height="18">`] as const
    }),
  ),
)

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

const keys: Readonly<Record<string, string>> = {
  'CommandOrControl+O': '⌘O',
  'CommandOrControl+,': '⌘,',
  'CommandOrControl+Q': '⌘Q',
}

function drawn(entries: readonly MenuEntry[]): string {
  const items = entries.map((entry) => {
    if (entry.kind === 'separator') return '<hr>'
    const { label, action, entries: below, isChecked, accelerator = '', toolTip = '' } = entry
    const hint = below ? '▸' : (keys[accelerator] ?? '')
    const state = action === undefined && below === undefined ? 'only-read' : ''
    const line = `<div class="${state}" title="${escaped(toolTip)}"><b>${isChecked === true ? '✓' : ''}</b><span>${escaped(label)}</span><i>${hint}</i></div>`
    return below ? `${line}<section>${drawn(below)}</section>` : line
  })
  return items.join('')
}

const pictures = Object.entries(menuScenes).map(([name, view]) => {
  const { name: shape, title, tooltip } = iconOf(view)
  const bar = `<header title="${escaped(tooltip)}">${images.get(shape) ?? ''}<span>${escaped(title)}</span></header>`
  return `<article><h2>${escaped(name)}</h2>${bar}<nav>${drawn(menuOf(view))}</nav></article>`
})

const style = `
:root { color-scheme: light dark; font: 13px/1.5 -apple-system, Inter, 'DejaVu Sans', sans-serif; }
body { margin: 24px; columns: 3; column-gap: 24px; background: light-dark(#dfe3ea, #22252b); }
article { break-inside: avoid; margin-bottom: 32px; }
h2 { font-size: 13px; font-weight: 600; margin: 0 0 6px; }
header { display: flex; gap: 6px; align-items: center; height: 24px; padding: 0 10px; width: fit-content; border-radius: 5px; background: light-dark(#0001, #fff2); }
nav { margin-top: 4px; padding: 5px; border-radius: 8px; background: light-dark(#fbfbfd, #33363d); box-shadow: 0 0 0 0.5px #0004, 0 6px 20px #0003; }
section { margin: 0 0 4px 28px; padding-left: 6px; border-left: 2px solid light-dark(#0002, #fff3); }
nav div { display: flex; gap: 6px; padding: 1px 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
b { flex: 0 0 12px; } span { flex: 1; } i { font-style: normal; opacity: 0.6; }
.only-read { opacity: 0.62; }
hr { border: 0; border-top: 1px solid light-dark(#0002, #fff3); margin: 4px 10px; }
@media (prefers-color-scheme: dark) { header img { filter: invert(1); } }
`

const page = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Menus of Metalbar</title><style>${style}</style><body>${pictures.join('')}</body></html>`
await mkdir(target, { recursive: true })
await writeFile(join(target, 'menus.html'), page)
await using browser = await startBrowser(found.path)
for (const colorScheme of ['light', 'dark'] as const) {
  const tab = await browser.newPage({ viewport: { width: 1_500, height: 1_000 }, colorScheme })
  await tab.setContent(page)
  await tab.screenshot({ path: join(target, `menus-${colorScheme}.png`), fullPage: true })
  await tab.close()
}
console.log(`Pictures are in ${target}`)
