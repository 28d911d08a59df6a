/** Type of each image in an icns file → its width in pixels; those that macOS takes as PNG, each size once and for Retina displays. */
export const icnsImages: Readonly<Record<string, number>> = {
  ic11: 32,
  ic12: 64,
  ic07: 128,
  ic13: 256,
  ic08: 256,
  ic14: 512,
  ic09: 512,
  ic10: 1024,
}

/** An icns file: its name and length, then each image with its type and length, all of them big-endian. */
export function icnsOf(imageOf: (pixels: number) => Buffer): Buffer {
  const blocks = Object.entries(icnsImages).map(([type, pixels]) => block(type, imageOf(pixels)))
  return block('icns', Buffer.concat(blocks))
}

const headBytes = 8

function block(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(headBytes)
  head.write(type, 'latin1')
  head.writeUInt32BE(headBytes + content.length, 4)
  return Buffer.concat([head, content])
}
