/** Bytes at the start of a file that `isGguf` and `looksLikeHtml` want to see. */
export const magicLength = 64

export function expectsGguf(fileName: string): boolean {
  return fileName.toLowerCase().endsWith('.gguf')
}

export function isGguf(start: Buffer): boolean {
  return start.subarray(0, 4).toString('latin1') === 'GGUF'
}

export function looksLikeHtml(start: Buffer): boolean {
  // White space is also what a byte-order mark is.
  return /^\s*<(?:!doctype\s+html|html|head|!--)/i.test(start.toString('utf8'))
}
