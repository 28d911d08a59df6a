import type { Plugin } from 'vite'

/** Each letter as one that looks like it, so that text which is still ASCII did not come from a catalogue. */
const letters = new Map(
  Object.entries({
    ...{ a: 'å', b: 'ƀ', c: 'ç', d: 'ð', e: 'é', f: 'ƒ', g: 'ĝ', h: 'ĥ', i: 'î', j: 'ĵ', k: 'ķ', l: 'ļ', m: 'ɱ' },
    ...{ n: 'ñ', o: 'ô', p: 'þ', q: 'ǫ', r: 'ŕ', s: 'š', t: 'ţ', u: 'û', v: 'ṽ', w: 'ŵ', x: 'ẋ', y: 'ý', z: 'ž' },
  }).flatMap(([from, to]) => [
    [from, to],
    [from.toUpperCase(), to.toUpperCase()],
  ]),
)

/** The text in a language that nobody speaks, longer by a third, as translations of short English texts are. */
const inOtherLanguage = (text: string): string =>
  text
    .replaceAll(/[aeiou]/g, (vowel) => `${vowel}${vowel}`)
    .replaceAll(/[a-z]/gi, (letter) => letters.get(letter) ?? letter)

/** Replaces all texts of a catalogue in place. What is translated already has no letter left that would be translated again. */
export function translateWords(words: object): void {
  for (const [key, entry] of Object.entries(words)) Object.assign(words, { [key]: translated(entry) })
}

function translated(entry: unknown): unknown {
  if (typeof entry === 'string') return inOtherLanguage(entry)
  if (isMessage(entry)) return (...values: unknown[]) => translated(entry(...values))
  if (typeof entry === 'object' && entry !== null) translateWords(entry)
  return entry
}

const isMessage = (entry: unknown): entry is (...values: unknown[]) => unknown => typeof entry === 'function'

const catalogue = /\/src\/(?:renderer\/words\/[\w-]+|contract\/words)\.ts$/

/** Builds the window with every catalogue in that language, as a translation would replace them. */
export const otherLanguage: Plugin = {
  name: 'other-language',
  enforce: 'pre',
  transform(code, id) {
    if (!catalogue.test(id)) return undefined
    const names = [...code.matchAll(/^export const (\w+)/gm)].map(([, name]) => name)
    const calls = names.map((name) => `typeof ${name} === 'object' && translateWords(${name})`)
    return `import { translateWords } from '${import.meta.filename}'\n${code}\n${calls.join('\n')}\n`
  },
}
