import { ToggleButton } from 'react-aria-components/ToggleButton'
import { ToggleButtonGroup } from 'react-aria-components/ToggleButtonGroup'
import styles from './choice.module.css'
import { classNames } from './class-names.ts'

interface ChoiceProps<T extends string> {
  /** What is chosen, in words. */
  readonly label: string
  readonly options: readonly T[]
  readonly words: Readonly<Record<T, string>>
  /** None of them = nothing is chosen yet. */
  readonly value: string
  readonly onChange: (value: T) => void
  /** Id of what says more about it. */
  readonly describedBy?: string
}

/** One of a few, all of which are seen. */
export function Choice<T extends string>({ label, options, words, value, onChange, describedBy }: ChoiceProps<T>) {
  return (
    <ToggleButtonGroup
      className={classNames(styles['choice'])}
      aria-label={label}
      {...(describedBy !== undefined && { 'aria-describedby': describedBy })}
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
  )
}
