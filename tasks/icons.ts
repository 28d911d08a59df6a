import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { chromium } from 'playwright'
import { chromiumPart } from './setup/chromium.ts'

/** Points; the height of macOS's menu bar leaves room for no more. */
const size = 18
const folder = path.join(import.meta.dirname, '../assets/tray')

/** Draws the template images of the menu bar from their sources: `node tasks/icons.ts`, after a source was changed. */
const found = chromiumPart.find()
if (!found.found) throw new Error(found.reason)
const browser = await chromium.launch({ executablePath: found.path, args: ['--no-sandbox'] })
try {
  for (const source of (await readdir(folder)).filter((file) => file.endsWith('.svg'))) {
    const name = `${path.basename(source, '.svg')}Template`
    await draw(source, 1, `${name}.png`)
    await draw(source, 2, `${name}@2x.png`)
  }
} finally {
  await browser.close()
}

async function draw(source: string, deviceScaleFactor: number, target: string): Promise<void> {
  const page = await browser.newPage({ viewport: { width: size, height: size }, deviceScaleFactor })
  const svg = await readFile(path.join(folder, source), 'utf8')
  await page.setContent(`<style>body { margin: 0 } svg { display: block }</style>${svg}`)
  await page.screenshot({ path: path.join(folder, target), omitBackground: true })
  await page.close()
}
