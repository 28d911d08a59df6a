import { memo } from 'react'
import { type LogMatch, partsOf } from '../log-search.ts'
import type { LogEntry } from '../log-tail.ts'
import styles from './log-lines.module.css'

interface LogLinesProps {
  readonly entries: readonly LogEntry[]
  /** What is marked. */
  readonly pattern: RegExp | undefined
  /** The match that is looked at. */
  readonly current: LogMatch | undefined
}

/** What is printed; a line is drawn anew only where something of it has changed. */
export const LogLines = memo(({ entries, pattern, current }: LogLinesProps) =>
  entries.map(({ id, kind, text }) =>
    kind === 'gap' ? (
      <p key={id} className={styles['gap']}>
        {text}
      </p>
    ) : (
      <Line key={id} text={text} pattern={pattern} current={current?.entryId === id ? current.nth : undefined} />
    ),
  ),
)

interface LineProps {
  readonly text: string
  readonly pattern: RegExp | undefined
  readonly current: number | undefined
}

const Line = memo(({ text, pattern, current }: LineProps) => (
  <p className={styles['line']}>
    {pattern === undefined
      ? text
      : partsOf(text, pattern).map((part, index) =>
          part.nth === undefined ? (
            part.text
          ) : (
            <mark key={index} className={styles['match']} data-current={part.nth === current}>
              {part.text}
            </mark>
          ),
        )}
  </p>
))
