import { ProgressBar as AriaProgressBar } from 'react-aria-components/ProgressBar'
import styles from './charts.module.css'

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

interface SparklineProps {
  /** What it shows, in words. */
  readonly label: string
  /** Points of each line, as SVG writes them; between two lines something is missing. */
  readonly lines: readonly string[]
  readonly box: { readonly width: number; readonly height: number }
}

/** The course of a figure, drawn so small that only its shape can be read. */
export function Sparkline({ label, lines, box: { width, height } }: SparklineProps) {
  return (
    <svg
      role="img"
      aria-label={label}
      className={styles['sparkline']}
      viewBox={`0 -1 ${width} ${height + 2}`}
      preserveAspectRatio="none"
    >
      <line className={styles['ground']} x1="0" x2={width} y1={height} y2={height} />
      {lines.map((points) => (
        <polyline key={points} className={styles['line']} points={points} />
      ))}
    </svg>
  )
}
