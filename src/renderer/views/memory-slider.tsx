import { Slider } from '../components/fields.tsx'
import { useSnapshot } from '../store.ts'
import { budgetWords } from '../words/settings.ts'
import styles from './setting-field.module.css'

/** Hundredths of all memory; 0 would mean automatic. */
const stops = Array.from({ length: 100 }, (_, index) => (index + 1) / 100)

interface MemorySliderProps {
  /** The fraction as it is written; nothing or 0 = automatic. */
  readonly text: string
  readonly onChange: (text: string) => void
}

/** How much of this machine's memory models may hold; nothing while its size is not known. */
export function MemorySlider({ text, onChange }: MemorySliderProps) {
  const { totalBytes, budgetBytes = 0, gpuLimitBytes } = useSnapshot(({ memory }) => memory) ?? {}
  if (totalBytes === undefined) return null
  const written = Number(text)
  const fraction = Math.min(1, written > 0 ? written : budgetBytes / totalBytes)
  return (
    <>
      <Slider
        label={budgetWords.slider}
        stops={stops}
        // As a stop is written, so that 0.29 is not just below its own.
        value={Math.round(100 * fraction) / 100}
        text={budgetWords.share(fraction, totalBytes)}
        onChange={(stop) => onChange(String(stop))}
      />
      <p className={styles['note']}>{budgetWords.limits(totalBytes, gpuLimitBytes)}</p>
    </>
  )
}
