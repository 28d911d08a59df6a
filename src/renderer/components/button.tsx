import type { ReactNode } from 'react'
import { Button as AriaButton } from 'react-aria-components/Button'
import styles from './button.module.css'
import { classNames } from './class-names.ts'
import { Spinner } from './glyph.tsx'

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
