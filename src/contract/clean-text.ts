/**
 * Texts on their way out of the process: to a terminal, a condition, an Event, a log, a page. Names and messages come from a cluster,
 * a server's output and the network, and none of them may steer a terminal, or reverse or hide what a person reads.
 */
const unsafe = /[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\u2060\ufeff\u{e0000}-\u{e007f}]+/gu
const unsafeInLines = /[^\P{Cc}\t\n]+|[\p{Bidi_Control}\u200b\u2028\u2029\u2060\ufeff\u{e0000}-\u{e007f}]+/gu
const plain = /^[\x20-\x7e]*$/

/** One line: a run of control, bidi and invisible characters is one space. */
export const cleanText = (text: string): string => (plain.test(text) ? text : text.replace(unsafe, ' '))

/** Tabs and ends of lines stay. */
export const cleanLines = (text: string): string => (plain.test(text) ? text : text.replace(unsafeInLines, ' '))

/** Every text in what JSON could carry; keys stay as they are. */
export function cleanTexts<T>(value: T): T
export function cleanTexts(value: unknown): unknown {
  if (typeof value === 'string') return cleanLines(value)
  if (Array.isArray(value)) return value.map((item: unknown) => cleanTexts(item))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, cleanTexts<unknown>(item)]))
}

const ellipsis = '…'

/** At most so many bytes of UTF-8, no character cut in two, with an ellipsis where something is missing. */
export function cutText(text: string, maxBytes: number): string {
  // A UTF-16 unit is three bytes at most.
  if (text.length * 3 <= maxBytes) return text
  const room = maxBytes - utf8Bytes(ellipsis)
  let bytes = 0
  let end = 0
  let cut = 0
  for (const character of text) {
    bytes += utf8Bytes(character)
    if (bytes > maxBytes) return `${text.slice(0, cut)}${ellipsis}`
    end += character.length
    if (bytes <= room) cut = end
  }
  return text
}

/** UTF-8 length of one character. */
function utf8Bytes(character: string): number {
  const point = character.codePointAt(0) ?? 0
  if (point < 0x80) return 1
  if (point < 0x800) return 2
  return point < 0x1_0000 ? 3 : 4
}

/** A sentence on its way out, clean and at most so many bytes; of a far longer text only the beginning is looked at. */
export function sentence(text: string, maxBytes: number): string {
  const head = text.slice(0, maxBytes * 4)
  return cutText(`${cleanText(head)}${head.length < text.length ? ellipsis : ''}`, maxBytes)
}
