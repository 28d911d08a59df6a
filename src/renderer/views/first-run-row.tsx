import type { ReactNode } from 'react'
import { StepGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/sentence.tsx'
import styles from './first-run.module.css'

interface RowProps {
  readonly name: string
  readonly value: string
  readonly status: 'done' | 'active' | 'failed'
  /** What can be done. */
  readonly children?: ReactNode
}

/** One thing that this machine has or lacks. */
export function Row({ name, value, status, children }: RowProps) {
  return (
    <li className={styles['row']}>
      <StepGlyph status={status} />
      <div className={styles['what']}>
        <p>
          <strong className={styles['name']}>{name}</strong> <Sentence text={value} />
        </p>
        {children}
      </div>
    </li>
  )
}

export const RowNote = ({ children }: { readonly children: ReactNode }) => <p className={styles['note']}>{children}</p>

export const RowButtons = ({ children }: { readonly children: ReactNode }) => (
  <div className={styles['buttons']}>{children}</div>
)
