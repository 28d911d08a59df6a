import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { chromium } from 'playwright'
import { icnsImages, icnsOf } from './icns.ts'
import { chromiumPart } from './setup/chromium.ts'

/** Points; the height of macOS's menu bar leaves room for no more. */
const traySize = 18
const assets = path.join(import.meta.dirname, '../assets')
const tray = path.join(assets, 'tray')
const app = path.join(assets, 'app')

/** Draws the images of the menu bar, of the app and of its disk image from their sources: `node tasks/icons.ts`, after a source was changed. */
const found = chromiumPart.find()
if (!found.found) throw new Error(found.reason)
const browser = await chromium.launch({ executablePath: found.path, args: ['--no-sandbox'] })
try {
  for (const source of (await readdir(tray)).filter((file) => file.endsWith('.svg'))) {
    const image = path.join(tray, source)
    const name = path.join(tray, `${path.basename(source, '.svg')}Template`)
    await writeFile(`${name}.png`, await drawn(image, { width: traySize, height: traySize }, 1))
    await writeFile(`${name}@2x.png`, await drawn(image, { width: traySize, height: traySize }, 2))
  }
  const icon = path.join(app, 'icon.svg')
  const images = new Map<number, Buffer>()
  for (const pixels of new Set(Object.values(icnsImages))) {
    images.set(pixels, await drawn(icon, { width: pixels, height: pixels }, 1))
  }
  await writeFile(
    path.join(app, 'icon.icns'),
    icnsOf((pixels) => images.get(pixels) ?? Buffer.alloc(0)),
  )
  const background = path.join(app, 'dmg-background')
  await writeFile(`${background}.png`, await drawn(`${background}.svg`, { width: 540, height: 360 }, 1))
  await writeFile(`${background}@2x.png`, await drawn(`${background}.svg`, { width: 540, height: 360 }, 2))
} finally {
  await browser.close()
}

interface Size {
  readonly width: number
  readonly height: number
}

async function drawn(source: string, viewport: Size, deviceScaleFactor: number): Promise<Buffer> {
  const page = await browser.newPage({ viewport, deviceScaleFactor })
  const svg = await readFile(source, 'utf8')
  await page.setContent(`<style>body { margin: 0 } svg { display: block; width: 100vw; height: 100vh }</style>${svg}`)
  const image = await page.screenshot({ omitBackground: true })
  await page.close()
  return image
}
