import { requestWords } from '../words/connection.ts'
import styles from './command.module.css'
import { CopyButton } from './copy-button.tsx'

interface CommandProps {
  /** One line or several. */
  readonly text: string
  /** Of the button, where "Copy command" would not say which. */
  readonly copyLabel?: string
  /** What it is, where it is no command. */
  readonly label?: string
}

/** Something to paste into a terminal. */
export function Command({ text, copyLabel = requestWords.copyCommand, label = requestWords.command }: CommandProps) {
  return (
    <>
      <CommandText text={text} label={label} />
      <CopyButton text={text} label={copyLabel}>
        {copyLabel}
      </CopyButton>
    </>
  )
}

/** The same without a button. */
export const CommandText = ({ text, label = requestWords.command }: Pick<CommandProps, 'text' | 'label'>) => (
  <pre className={styles['command']} tabIndex={0} aria-label={label}>
    {text}
  </pre>
)
