import { useId } from 'react'
import { Choice } from './choice.tsx'
import styles from './choice-row.module.css'
import { Sentence } from './sentence.tsx'

interface ChoiceRowProps<T extends string> {
  readonly title: string
  readonly help: string
  readonly words: Readonly<Record<T, string>>
  /** None of them = nothing is chosen yet. */
  readonly value: string
  readonly onChange: (value: T) => void
}

/** One of a few with its title, and below it what it does. */
export function ChoiceRow<T extends string>({ title, help, words, value, onChange }: ChoiceRowProps<T>) {
  const helpId = useId()
  return (
    <div className={styles['row']}>
      <p className={styles['title']}>{title}</p>
      <Choice
        label={title}
        options={Object.keys(words) as T[]}
        words={words}
        value={value}
        onChange={onChange}
        describedBy={helpId}
      />
      <p id={helpId} className={styles['help']}>
        <Sentence text={help} />
      </p>
    </div>
  )
}
