import type { ReactNode } from 'react'
import styles from './folded.module.css'

interface FoldedProps {
  /** Of what is inside. */
  readonly title: string
  readonly onToggle?: (isOpen: boolean) => void
  readonly children: ReactNode
}

/** What only some want to read. */
export function Folded({ title, onToggle, children }: FoldedProps) {
  return (
    <details
      className={styles['folded']}
      {...(onToggle !== undefined && { onToggle: (event) => onToggle(event.currentTarget.open) })}
    >
      <summary className={styles['title']}>{title}</summary>
      <div className={styles['content']}>{children}</div>
    </details>
  )
}
