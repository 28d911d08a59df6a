import { ProgressBar as AriaProgressBar } from 'react-aria-components/ProgressBar'
import styles from './progress-bar.module.css'

interface ProgressBarProps {
  readonly label: string
  /** Absent where the end is not known. */
  readonly percent: number | undefined
}

export function ProgressBar({ label, percent }: ProgressBarProps) {
  return (
    <AriaProgressBar aria-label={label} value={percent ?? 0} isIndeterminate={percent === undefined}>
      <svg className={styles['bar']} aria-hidden="true">
        <rect className={styles['track']} width="100%" height="100%" rx="3" />
        <rect
          className={percent === undefined ? styles['unknown'] : styles['done']}
          width={percent === undefined ? '30%' : `${percent}%`}
          height="100%"
          rx="3"
        />
      </svg>
    </AriaProgressBar>
  )
}
