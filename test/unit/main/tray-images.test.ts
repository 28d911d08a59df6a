import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { inflateSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { iconNames } from '../../../src/main/tray/icon.ts'

const folder = path.join(import.meta.dirname, '../../../assets/tray')

test.for(iconNames.flatMap((name) => [[name, '', 18] as const, [name, '@2x', 36] as const]))(
  'the image %sTemplate%s.png is %d points of black and transparency',
  async ([name, scale, size]) => {
    const { width, height, pixels } = decode(await readFile(path.join(folder, `${name}Template${scale}.png`)))
    const alphas = new Set(pixels.map(([, , , alpha]) => alpha))
    expect({
      width,
      height,
      coloured: pixels.filter(([red, green, blue]) => red + green + blue > 0).length,
      transparent: alphas.has(0),
      opaque: alphas.has(255),
    }).toEqual({ width: size, height: size, coloured: 0, transparent: true, opaque: true })
  },
)

test('every state has another image', async () => {
  const images = await Promise.all(
    iconNames.map((name) => readFile(path.join(folder, `${name}Template.png`), 'base64')),
  )
  expect(new Set(images).size).toBe(iconNames.length)
})

type Pixel = readonly [red: number, green: number, blue: number, alpha: number]

/** PNG as Chromium writes it: eight bits, red, green, blue and alpha, not interlaced. */
function decode(png: Buffer): { width: number; height: number; pixels: Pixel[] } {
  const chunks: Buffer[] = []
  for (let at = 8; at < png.length; at += png.readUInt32BE(at) + 12) {
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT')
      chunks.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)))
  }
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)]
  expect([...png.subarray(24, 29)]).toEqual([8, 6, 0, 0, 0])
  const rows = unfiltered(inflateSync(Buffer.concat(chunks)), width * 4, height)
  const pixels = rows.flatMap((row) =>
    Array.from({ length: width }, (_, x): Pixel => [
      row[4 * x] ?? 0,
      row[4 * x + 1] ?? 0,
      row[4 * x + 2] ?? 0,
      row[4 * x + 3] ?? 0,
    ]),
  )
  return { width, height, pixels }
}

/** The five filters of the PNG specification, section 9. */
function unfiltered(data: Buffer, rowBytes: number, height: number): number[][] {
  const rows: number[][] = []
  for (let y = 0; y < height; y++) {
    const start = y * (rowBytes + 1)
    const row: number[] = []
    for (let x = 0; x < rowBytes; x++) {
      const left = x < 4 ? 0 : (row[x - 4] ?? 0)
      const up = rows[y - 1]?.[x] ?? 0
      const upLeft = x < 4 ? 0 : (rows[y - 1]?.[x - 4] ?? 0)
      const predicted = [0, left, up, Math.floor((left + up) / 2), paeth(left, up, upLeft)][data[start] ?? 0] ?? 0
      row.push(((data[start + 1 + x] ?? 0) + predicted) & 0xff)
    }
    rows.push(row)
  }
  return rows
}

function paeth(left: number, up: number, upLeft: number): number {
  const estimate = left + up - upLeft
  const distances = [left, up, upLeft].map((value) => Math.abs(estimate - value))
  return [left, up, upLeft][distances.indexOf(Math.min(...distances))] ?? 0
}
