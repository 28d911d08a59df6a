import type { ReactNode } from 'react'
import { FieldError } from 'react-aria-components/FieldError'
import { Input } from 'react-aria-components/Input'
import { Label } from 'react-aria-components/Label'
import { Text } from 'react-aria-components/Text'
import { TextField } from 'react-aria-components/TextField'
import { classNames } from './class-names.ts'
import { Sentence } from './sentence.tsx'
import styles from './text-input.module.css'

interface TextInputProps {
  /** By which it is found from elsewhere. */
  readonly id?: string
  readonly label: string
  readonly value: string
  readonly onChange: (text: string) => void
  /** The person has left it. */
  readonly onBlur?: () => void
  /** Below the field. */
  readonly help?: string
  /** What is wrong with the text; it stands at the field. */
  readonly problem?: string | undefined
  readonly placeholder?: string
  readonly disabled?: boolean
  /** Nobody may read what is written. */
  readonly isSecret?: boolean
  /** After the text, in its line. */
  readonly beside?: ReactNode
}

/** One line of text from a person. */
export function TextInput({
  id,
  label,
  value,
  onChange,
  onBlur,
  help,
  problem,
  placeholder,
  disabled = false,
  isSecret = false,
  beside,
}: TextInputProps) {
  return (
    <TextField
      {...(id !== undefined && { id })}
      className={classNames(styles['field'])}
      value={value}
      onChange={onChange}
      {...(onBlur && { onBlur })}
      isDisabled={disabled}
      type={isSecret ? 'password' : 'text'}
      isInvalid={problem !== undefined}
      validationBehavior="aria"
      spellCheck="false"
      autoComplete="off"
    >
      <Label className={classNames(styles['label'])}>{label}</Label>
      <div className={styles['line']}>
        <Input className={classNames(styles['input'])} {...(placeholder !== undefined && { placeholder })} />
        {beside}
      </div>
      {help !== undefined && (
        <Text slot="description" className={classNames(styles['help'])}>
          <Sentence text={help} />
        </Text>
      )}
      <FieldError className={classNames(styles['problem'])}>{problem}</FieldError>
    </TextField>
  )
}
