import styles from './command.module.css'
import { CopyButton } from './copy-button.tsx'

interface CommandProps {
  /** One line or several. */
  readonly text: string
  /** Of the button, where "Copy command" would not say which. */
  readonly copyLabel?: string
}

/** Something to paste into a terminal. */
export function Command({ text, copyLabel = 'Copy command' }: CommandProps) {
  return (
    <>
      <pre className={styles['command']} tabIndex={0} aria-label="Command">
        {text}
      </pre>
      <CopyButton text={text} label={copyLabel}>
        {copyLabel}
      </CopyButton>
    </>
  )
}
