/** `whole`: it is not broken at the end of a line but between its pieces. */
export type SentencePart =
  | { readonly kind: 'plain'; readonly text: string }
  | { readonly kind: 'whole'; readonly pieces: readonly string[] }
  | { readonly kind: 'code'; readonly parts: readonly SentencePart[] }

/** In characters; what is longer may be broken where its parts meet, so that it is not broken at any letter. */
const longestPiece = 24

/** Code between backticks, or a word. */
const codeOrWord = /`([^`]+)`|[^\s`]+/gu
/** A flag, a name, a path. */
const hasDash = /-./u

/** Finds commands and flags in a sentence of the agent or the cluster, such as "run `metal-agent power install` or start it with --kubeconfig". */
export function partsOf(sentence: string): SentencePart[] {
  const parts: SentencePart[] = []
  let end = 0
  for (const match of sentence.matchAll(codeOrWord)) {
    const [text, code] = match
    if (code === undefined && !hasDash.test(text)) continue
    if (match.index > end) parts.push({ kind: 'plain', text: sentence.slice(end, match.index) })
    parts.push(code === undefined ? { kind: 'whole', pieces: piecesOf(text) } : { kind: 'code', parts: partsOf(code) })
    end = match.index + text.length
  }
  if (end < sentence.length) parts.push({ kind: 'plain', text: sentence.slice(end) })
  return parts
}

/** A long path or URL ends its pieces after a slash, and before a dot or a port. */
const piecesOf = (word: string): string[] =>
  word.length <= longestPiece ? [word] : word.split(/(?<=.\/)(?=[^/])|(?=[.:][^/])/u)
