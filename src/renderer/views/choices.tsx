import { ListBox, ListBoxItem } from 'react-aria-components/ListBox'
import { classNames } from '../components/class-names.ts'
import { LongName } from '../components/long-name.tsx'
import styles from './choices.module.css'

interface Choice {
  readonly id: string
  readonly name: string
  /** Beside the name. */
  readonly text: string
}

interface ChoicesProps {
  readonly title: string
  readonly choices: readonly Choice[]
  readonly chosen?: string | undefined
  readonly onChoose: (id: string) => void
}

/** One of several; nothing where there are none. */
export function Choices({ title, choices, chosen, onChoose }: ChoicesProps) {
  if (choices.length === 0) return null
  return (
    <div>
      <h3 className={styles['title']}>{title}</h3>
      <ListBox
        aria-label={title}
        className={classNames(styles['choices'])}
        items={choices}
        selectionMode="single"
        selectedKeys={chosen === undefined ? [] : [chosen]}
        onSelectionChange={(keys) => {
          const id = keys === 'all' ? undefined : [...keys].map(String)[0]
          if (id !== undefined) onChoose(id)
        }}
      >
        {({ name, text }) => (
          <ListBoxItem textValue={name} className={classNames(styles['choice'])}>
            <LongName name={name} />
            <span className={styles['text']}>{text}</span>
          </ListBoxItem>
        )}
      </ListBox>
    </div>
  )
}
