import { type ReactNode, useEffect, useState } from 'react'
import { Button as AriaButton } from 'react-aria-components/Button'
import styles from './copy-button.module.css'
import { requestWords } from '../words/connection.ts'
import { CheckGlyph, CopyGlyph } from './glyph.tsx'
import { Spoken } from './spoken.tsx'

interface CopyButtonProps {
  readonly text: string
  /** The button's label for screen readers. */
  readonly label: string
  readonly children: ReactNode
}

/** Long enough to be read. */
const saidMs = 2_000

/** Puts a text on the clipboard and says so in its own place. */
export function CopyButton({ text, label, children }: CopyButtonProps) {
  const [said, setSaid] = useState<string>()
  useEffect(() => {
    if (said === undefined) return
    const timer = setTimeout(() => setSaid(undefined), saidMs)
    return () => clearTimeout(timer)
  }, [said])
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setSaid(requestWords.copied),
      () => setSaid(requestWords.notAllowed),
    )
  }
  return (
    <>
      <AriaButton className={styles['copy'] ?? ''} onPress={copy} aria-label={label}>
        <span className={styles['text']} data-hidden={said !== undefined}>
          {children}
        </span>
        {said !== undefined && <span className={styles['said']}>{said}</span>}
        {said === requestWords.copied ? <CheckGlyph /> : <CopyGlyph />}
      </AriaButton>
      <Spoken live>{said}</Spoken>
    </>
  )
}
