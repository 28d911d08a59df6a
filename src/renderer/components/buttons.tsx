import { type ReactNode, useEffect, useState } from 'react'
import { Button as AriaButton } from 'react-aria-components/Button'
import { useQuestion } from '../focus.ts'
import { requestWords } from '../words/window.ts'
import { CheckGlyph, CopyGlyph, Spinner } from './glyph.tsx'
import { classNames, Spoken } from './text.tsx'
import styles from './buttons.module.css'

interface ButtonProps {
  readonly children: ReactNode
  readonly onPress: () => void
  readonly look?: 'plain' | 'prominent' | 'link'
  /** Where the text alone does not say it. */
  readonly label?: string
  readonly disabled?: boolean
  readonly pending?: boolean
  /** Once, when it is first drawn. */
  readonly takesFocus?: boolean
}

export function Button({ children, onPress, look, label, takesFocus, ...states }: ButtonProps) {
  const { disabled = false, pending = false } = states
  return (
    <AriaButton
      className={classNames(styles['button'], look !== undefined && styles[look])}
      isDisabled={disabled}
      isPending={pending}
      onPress={onPress}
      {...(takesFocus === true && { autoFocus: true })}
      {...(label !== undefined && { 'aria-label': label })}
    >
      {pending && <Spinner />}
      {children}
    </AriaButton>
  )
}

interface SureButtonProps extends Omit<ButtonProps, 'onPress' | 'takesFocus'> {
  /** What is asked first; undefined = nothing. */
  readonly question: ReactNode
  readonly yes: string
  readonly no: string
  readonly onYes: () => void
}

/** A button that asks before it does something. The answer that changes nothing has the focus, and is that of Escape. */
export function SureButton({ question: asked, yes, no, onYes, ...button }: SureButtonProps) {
  const question = useQuestion()
  const { disabled = false, pending = false } = button
  if (!question.isAsked) {
    return <Button {...button} takesFocus={question.isOver} onPress={asked === undefined ? onYes : question.open} />
  }
  const confirm = () => {
    question.close()
    onYes()
  }
  return (
    <div className={styles['question']} onKeyDown={question.onKeyDown}>
      <div>{asked}</div>
      <Button disabled={disabled} pending={pending} onPress={confirm}>
        {yes}
      </Button>
      <Button takesFocus onPress={question.close}>
        {no}
      </Button>
    </div>
  )
}

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

interface CommandProps {
  /** One line or several. */
  readonly text: string
  /** Label of the button, where "Copy command" would not say which command. */
  readonly copyLabel?: string
  /** Names the text for screen readers, where it is no command. */
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
