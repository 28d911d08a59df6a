import { partsOf, type SentencePart } from '../sentence-parts.ts'
import styles from './sentence.module.css'

/** What the agent or the cluster says. Flags, names, paths and URLs are not broken in their dashes; what stands in backticks is code. */
export const Sentence = ({ text }: { readonly text: string }) => <Parts parts={partsOf(text)} />

const Parts = ({ parts }: { readonly parts: readonly SentencePart[] }) => parts.map(drawn)

/** A sentence has its parts for as long as it is the same. */
function drawn(part: SentencePart, index: number) {
  switch (part.kind) {
    case 'plain':
      return part.text
    case 'whole':
      return (
        <span key={index} className={styles['whole']}>
          {part.pieces.map((piece, number) => (
            <span key={number} className={styles['whole']}>
              {piece}
            </span>
          ))}
        </span>
      )
    case 'code':
      return (
        <code key={index} className={styles['code']}>
          <Parts parts={part.parts} />
        </code>
      )
  }
}
