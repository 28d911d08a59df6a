import { useId } from 'react'
import styles from './slider.module.css'

interface SliderProps {
  readonly label: string
  /** What may be chosen, from the least to the most. */
  readonly stops: readonly number[]
  readonly value: number
  /** With its unit, as it is read out. */
  readonly text: string
  readonly onChange: (value: number) => void
  readonly disabled?: boolean
}

/** One of several numbers, each as far from the next whatever lies between them. */
export function Slider({ label, stops, value, text, onChange, disabled = false }: SliderProps) {
  const id = useId()
  const index = Math.max(
    0,
    stops.findLastIndex((stop) => stop <= value),
  )
  return (
    <div className={styles['slider']}>
      <label className={styles['label']} htmlFor={id}>
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
        disabled={disabled}
        onChange={({ currentTarget }) => {
          const stop = stops[currentTarget.valueAsNumber]
          if (stop !== undefined) onChange(stop)
        }}
      />
    </div>
  )
}
