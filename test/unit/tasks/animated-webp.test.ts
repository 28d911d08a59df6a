import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { animatedWebp } from '../../../tasks/animated-webp.ts'

/** A still WebP with this for its picture, in the extended form with a colour profile, which an animation has no place for. */
function still(picture: string): Buffer {
  const chunk = (name: string, data: string) => {
    const size = Buffer.alloc(4)
    size.writeUInt32LE(data.length)
    return Buffer.concat([Buffer.from(name), size, Buffer.from(data), Buffer.alloc(data.length % 2)])
  }
  return chunk('RIFF', `WEBP${chunk('ICCP', 'profile').toString('latin1')}${chunk('VP8 ', picture).toString('latin1')}`)
}

/** The chunks of a WebP in order, with what each holds. */
function chunksOf(file: Buffer, from = 12): { name: string; data: Buffer }[] {
  if (from >= file.length) return []
  const size = file.readUInt32LE(from + 4)
  const one = { name: file.toString('latin1', from, from + 4), data: file.subarray(from + 8, from + 8 + size) }
  return [one, ...chunksOf(file, from + 8 + size + (size % 2))]
}

test('an animated WebP repeats its frames for ever, each with its place, size, time and picture', () => {
  const file = animatedWebp(400, 620, [
    { webp: still('odd'), x: 0, y: 0, width: 400, height: 620, ms: 200 },
    { webp: still('even'), x: 20, y: 300, width: 31, height: 7, ms: 1_400 },
  ])
  expect([file.toString('latin1', 0, 4), file.readUInt32LE(4) + 8]).toEqual(['RIFF', file.length])
  const [extended, animation, ...frames] = chunksOf(file)
  expect(extended).toEqual({ name: 'VP8X', data: Buffer.from([2, 0, 0, 0, 0x8f, 1, 0, 0x6b, 2, 0]) })
  expect(animation).toEqual({ name: 'ANIM', data: Buffer.from([255, 255, 255, 255, 0, 0]) })
  const told = frames.map(({ name, data }) => ({
    name,
    place: [0, 3, 6, 9, 12].map((at) => data.readUIntLE(at, 3)),
    pictures: chunksOf(data, 16).map((one) => [one.name, String(one.data)]),
  }))
  expect(told).toEqual([
    { name: 'ANMF', place: [0, 0, 399, 619, 200], pictures: [['VP8 ', 'odd']] },
    { name: 'ANMF', place: [10, 150, 30, 6, 1_400], pictures: [['VP8 ', 'even']] },
  ])
})

test('the recording that README shows is an animation, and short enough for a page', () => {
  const file = readFileSync(path.join(import.meta.dirname, '../../../assets/screenshots/window.webp'))
  const frames = chunksOf(file).filter(({ name }) => name === 'ANMF')
  expect([frames.length > 20, file.length < 1_000_000]).toEqual([true, true])
})
