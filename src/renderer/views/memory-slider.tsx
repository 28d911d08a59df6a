import { Label } from 'react-aria-components/Label'
import { Slider, SliderOutput, SliderThumb, SliderTrack } from 'react-aria-components/Slider'
import { classNames } from '../components/class-names.ts'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { budgetWords } from '../words/memory-budget.ts'
import styles from './memory-slider.module.css'

interface MemorySliderProps {
  /** Of all memory; 0 = automatic. */
  readonly fraction: number
  /** A number of bytes is set, which counts instead. */
  readonly isOverruled: boolean
  readonly onChange: (fraction: number) => void
}

/** What is less makes no sense, and 0 would mean automatic. */
const least = 0.01

/** How much of this machine's memory models may hold; nothing while its size is not known. */
export function MemorySlider({ fraction, isOverruled, onChange }: MemorySliderProps) {
  const total = useSnapshot(({ memory }) => memory?.totalBytes)
  const budget = useSnapshot(({ memory }) => memory?.budgetBytes)
  const gpuLimit = useSnapshot(({ memory }) => memory?.gpuLimitBytes)
  // What automatic would be, which is not the present budget while another one is set.
  const automatic = useAnswer(
    { name: 'evictionPreview', settings: { memoryFraction: null, memoryBudgetBytes: null } },
    [fraction > 0, total, gpuLimit],
  ).answer?.budgetBytes
  if (total === undefined) return null
  const bytes = (isOverruled ? undefined : automatic) ?? budget ?? 0
  const value = Math.max(least, Math.min(1, fraction > 0 ? fraction : bytes / total))
  return (
    <Slider
      className={classNames(styles['slider'])}
      value={value}
      onChange={onChange}
      minValue={least}
      maxValue={1}
      step={0.01}
      formatOptions={{ style: 'percent' }}
      isDisabled={isOverruled}
    >
      <div className={styles['first']}>
        <Label className={classNames(styles['label'])}>{budgetWords.slider}</Label>
        <SliderOutput className={classNames(styles['value'])}>{budgetWords.share(value, total)}</SliderOutput>
      </div>
      <SliderTrack className={classNames(styles['track'])}>
        <span className={styles['filled']} style={{ width: `${100 * value}%` }} />
        {gpuLimit !== undefined && gpuLimit < total && (
          <span className={styles['gpuLimit']} style={{ insetInlineStart: `${(100 * gpuLimit) / total}%` }} />
        )}
        <SliderThumb className={classNames(styles['thumb'])} />
      </SliderTrack>
      <ul className={styles['legend']}>
        {gpuLimit !== undefined && (
          <li>
            <span className={classNames(styles['key'], styles['gpuLimitKey'])} />
            {budgetWords.gpuLimit(gpuLimit)}
          </li>
        )}
        <li>
          <span className={classNames(styles['key'], styles['ramKey'])} />
          {budgetWords.ram(total)}
        </li>
      </ul>
      {isOverruled && <p className={styles['note']}>{budgetWords.bytesCount}</p>}
    </Slider>
  )
}
