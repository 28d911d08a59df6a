import type { Readable } from 'node:stream'

/**
 * The lines of an answer as they come, without empty ones and without what follows the last line break. A line may come in hundreds of pieces:
 * each is looked at once. Throws where a line is longer than so many characters.
 */
export async function* linesOf(body: Readable, maxCharacters: number): AsyncGenerator<string, void> {
  let pieces: string[] = []
  let length = 0
  body.setEncoding('utf8')
  for await (const chunk of body) {
    const [end = '', ...starts] = String(chunk).split('\n')
    pieces.push(end)
    length += end.length
    for (const start of starts) {
      if (length > 0) yield pieces.join('')
      pieces = [start]
      length = start.length
    }
    if (length > maxCharacters) throw new Error('a line of it is too long')
  }
}
