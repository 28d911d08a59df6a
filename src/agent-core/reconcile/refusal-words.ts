import type { MemoryRefusal } from '../memory/memory.ts'

/** A sentence is read to its end where it names few. */
const waysNamed = 2

/** Why a server may not be started now, with what would make it fit. */
export function refusalSentence({ message, ways }: MemoryRefusal): string {
  const named = ways.slice(0, waysNamed).map(({ sentence }) => sentence.charAt(0).toLowerCase() + sentence.slice(1))
  return named.length === 0 ? `${message}.` : `${message}. What would make it fit: ${named.join('; or ')}.`
}

/** Why a changed specification is not served yet. */
export const insteadSentence = (refusal: MemoryRefusal): string =>
  `The specification changed, but the new server would not fit, so the previous one keeps serving: ${refusalSentence(refusal)}`
