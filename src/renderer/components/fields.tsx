import { type ReactNode, type RefObject, useEffect, useId, useRef } from 'react'
import { FieldError } from 'react-aria-components/FieldError'
import { Input } from 'react-aria-components/Input'
import { Label } from 'react-aria-components/Label'
import { SearchField } from 'react-aria-components/SearchField'
import { SwitchButton, SwitchField } from 'react-aria-components/Switch'
import { Text } from 'react-aria-components/Text'
import { TextField } from 'react-aria-components/TextField'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import { ToggleButtonGroup } from 'react-aria-components/ToggleButtonGroup'
import { classNames, Said, Sentence } from './text.tsx'
import styles from './fields.module.css'

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

interface FormProps {
  readonly className?: string | undefined
  readonly ref?: RefObject<HTMLFormElement | null>
  readonly onDone: () => void
  readonly children: ReactNode
}

/** Fields that a person ends with Return. */
export const Form = ({ onDone, ...parts }: FormProps) => (
  <form
    {...parts}
    onSubmit={(event) => {
      event.preventDefault()
      onDone()
    }}
  />
)

interface FindFieldProps {
  readonly label: string
  readonly placeholder: string
  readonly text: string
  readonly onChange: (text: string) => void
}

/** What is searched for. Command+F, elsewhere Control+F, comes here from everywhere in the view; Escape clears it. */
export function FindField({ label, placeholder, text, onChange }: FindFieldProps) {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'f' || !(event.metaKey || event.ctrlKey)) return
      event.preventDefault()
      field.current?.select()
    }
    window.addEventListener('keydown', onKeyDown)
    return () => window.removeEventListener('keydown', onKeyDown)
  }, [])
  return (
    <SearchField className={classNames(styles['find'])} aria-label={label} value={text} onChange={onChange}>
      <Input ref={field} className={classNames(styles['input'])} placeholder={placeholder} spellCheck="false" />
    </SearchField>
  )
}

interface ChoiceRowProps<T extends string> {
  readonly title: string
  readonly help: string
  /** The label of each choice, by its value. */
  readonly words: Readonly<Record<T, string>>
  /** None of them = nothing is chosen yet. */
  readonly value: string
  readonly onChange: (value: T) => void
}

/** One of a few, all of which are seen, with its title, and below it what it does. */
export function ChoiceRow<T extends string>({ title, help, words, value, onChange }: ChoiceRowProps<T>) {
  const helpId = useId()
  const options = Object.keys(words) as T[]
  return (
    <div className={styles['row']}>
      <p className={styles['title']}>{title}</p>
      <ToggleButtonGroup
        className={classNames(styles['choice'])}
        aria-label={title}
        aria-describedby={helpId}
        disallowEmptySelection
        selectedKeys={[value]}
        onSelectionChange={(keys) => {
          const chosen = options.find((option) => keys.has(option))
          if (chosen !== undefined) onChange(chosen)
        }}
      >
        {options.map((option) => (
          <ToggleButton key={option} id={option} className={classNames(styles['option'])}>
            {words[option]}
          </ToggleButton>
        ))}
      </ToggleButtonGroup>
      <div id={helpId}>
        <Said look="small" text={help} />
      </div>
    </div>
  )
}

interface SwitchRowProps {
  readonly title: string
  readonly help: string
  readonly isOn: boolean
  readonly disabled?: boolean
  readonly onChange: (isOn: boolean) => void
}

/** A switch with its title, and below it what it does. */
export function SwitchRow({ title, help, isOn, disabled = false, onChange }: SwitchRowProps) {
  return (
    <SwitchField isSelected={isOn} isDisabled={disabled} onChange={onChange}>
      <SwitchButton className={classNames(styles['switch'])}>
        <span className={styles['track']} aria-hidden="true" />
        {title}
      </SwitchButton>
      <Text slot="description" className={classNames(styles['switchRowHelp'])}>
        <Sentence text={help} />
      </Text>
    </SwitchField>
  )
}

interface SliderProps {
  readonly label: string
  /** What may be chosen, from the least to the most. */
  readonly stops: readonly number[]
  readonly value: number
  /** With its unit, as it is read out. */
  readonly text: string
  readonly onChange: (value: number) => void
}

/** One of several numbers, each as far from the next whatever lies between them. */
export function Slider({ label, stops, value, text, onChange }: SliderProps) {
  const id = useId()
  const index = Math.max(
    0,
    stops.findLastIndex((stop) => stop <= value),
  )
  return (
    <div className={styles['slider']}>
      <label className={styles['sliderLabel']} htmlFor={id}>
        {label}
      </label>
      <output className={styles['value']} htmlFor={id} aria-live="off">
        {text}
      </output>
      <input
        id={id}
        className={styles['range']}
        type="range"
        min={0}
        max={stops.length - 1}
        step={1}
        value={index}
        aria-valuetext={text}
        onChange={({ currentTarget }) => {
          const stop = stops[currentTarget.valueAsNumber]
          if (stop !== undefined) onChange(stop)
        }}
      />
    </div>
  )
}
