import type { ReactNode } from 'react'
import styles from './banner.module.css'
import { classNames } from './class-names.ts'
import { ErrorGlyph, NoteGlyph, WarningGlyph } from './glyph.tsx'

interface BannerProps {
  readonly tone: 'note' | 'warn' | 'bad'
  readonly children: ReactNode
  /** Buttons. */
  readonly actions?: ReactNode
}

const glyphs = { note: <NoteGlyph />, warn: <WarningGlyph />, bad: <ErrorGlyph /> }

/** Something a person should know, with what can be done about it. */
export function Banner({ tone, children, actions }: BannerProps) {
  return (
    <div className={classNames(styles['banner'], styles[tone])}>
      <span className={styles['glyph']}>{glyphs[tone]}</span>
      <div className={styles['text']}>{children}</div>
      {actions !== undefined && <div className={styles['actions']}>{actions}</div>}
    </div>
  )
}
