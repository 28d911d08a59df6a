import styles from './sparkline.module.css'

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
