/** A part of the picture that is replaced, as a still WebP; it stays for so long. */
export interface AnimationFrame {
  readonly webp: Buffer
  /** Both even. */
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
  readonly ms: number
}

/** Frames in one file that repeats for ever: https://developers.google.com/speed/webp/docs/riff_container */
export function animatedWebp(width: number, height: number, frames: readonly AnimationFrame[]): Buffer {
  const hasAnimation = 0x02
  const header = Buffer.concat([Buffer.from([hasAnimation, 0, 0, 0]), uint24(width - 1), uint24(height - 1)])
  const loop = Buffer.from([255, 255, 255, 255, 0, 0])
  const body = Buffer.concat([
    Buffer.from('WEBP'),
    ...[chunk('VP8X', header), chunk('ANIM', loop)],
    ...frames.map((frame) => chunk('ANMF', frameData(frame))),
  ])
  return chunk('RIFF', body)
}

function frameData({ webp, x, y, width, height, ms }: AnimationFrame): Buffer {
  const overwrites = 0x02
  const place = [x / 2, y / 2, width - 1, height - 1, ms].map(uint24)
  return Buffer.concat([...place, Buffer.from([overwrites]), ...picturesOf(webp)])
}

/** What of a still WebP holds its picture, with the heads of the chunks. */
function picturesOf(webp: Buffer): Buffer[] {
  const found: Buffer[] = []
  for (let at = 12; at + 8 <= webp.length;) {
    const size = webp.readUInt32LE(at + 4)
    const end = at + 8 + size + (size % 2)
    if (['VP8 ', 'VP8L', 'ALPH'].includes(webp.toString('latin1', at, at + 4))) found.push(webp.subarray(at, end))
    at = end
  }
  return found
}

function chunk(name: string, data: Buffer): Buffer {
  const size = Buffer.alloc(4)
  size.writeUInt32LE(data.length)
  return Buffer.concat([Buffer.from(name, 'latin1'), size, data, Buffer.alloc(data.length % 2)])
}

function uint24(value: number): Buffer {
  const bytes = Buffer.alloc(3)
  bytes.writeUIntLE(value, 0, 3)
  return bytes
}
