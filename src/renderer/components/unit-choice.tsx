import styles from './unit-choice.module.css'

interface UnitChoiceProps<Unit extends string> {
  readonly label: string
  readonly units: readonly Unit[]
  readonly words: Readonly<Record<Unit, string>>
  readonly value: Unit
  readonly onChange: (unit: Unit) => void
}

/** What the number beside it is in. */
export function UnitChoice<Unit extends string>({ label, units, words, value, onChange }: UnitChoiceProps<Unit>) {
  return (
    <select
      className={styles['unit']}
      aria-label={label}
      value={value}
      onChange={({ currentTarget }) => {
        const chosen = units.find((unit) => unit === currentTarget.value)
        if (chosen !== undefined) onChange(chosen)
      }}
    >
      {units.map((unit) => (
        <option key={unit} value={unit}>
          {words[unit]}
        </option>
      ))}
    </select>
  )
}
