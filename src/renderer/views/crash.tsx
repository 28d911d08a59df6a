import type { CrashView } from '../../contract/service.ts'
import { formatBytes } from '../../contract/format.ts'
import { ErrorGlyph } from '../components/glyph.tsx'
import { Age, Until } from '../components/time.tsx'
import { endWords, timesWords } from '../words/services.ts'
import styles from './crash.module.css'

interface CrashProps {
  readonly crash: CrashView
  readonly retryAt: string | undefined
  /** A server serves again. */
  readonly isOver: boolean
}

export function Crash({ crash, retryAt, isOver }: CrashProps) {
  const { at, failures, message, firstError, memory } = crash
  return (
    <section className={isOver ? styles['over'] : styles['crash']} aria-label="Crash">
      <h3 className={styles['title']}>
        <ErrorGlyph />
        {failures === 0 ? 'Crashed earlier' : `Crashed ${timesWords(failures)}`}
        {isOver && ', and serves again'}
      </h3>
      <p>{message}</p>
      {firstError !== undefined && <pre className={styles['error']}>{firstError}</pre>}
      <dl className={styles['facts']}>
        <div>
          <dt>How</dt>
          <dd>{endWords(crash)}</dd>
        </div>
        <div>
          <dt>When</dt>
          <dd>
            <Age since={at} /> ago
          </dd>
        </div>
        <div>
          <dt>Memory</dt>
          <dd>{memory === undefined ? 'Not reported' : formatBytes(memory.residentBytes)}</dd>
        </div>
        {retryAt !== undefined && (
          <div>
            <dt>Next attempt</dt>
            <dd>
              <Until at={retryAt} />
            </dd>
          </div>
        )}
      </dl>
    </section>
  )
}
