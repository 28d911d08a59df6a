import type { CrashView } from '../../contract/service.ts'
import { formatBytes } from '../../contract/format.ts'
import { ErrorGlyph } from '../components/glyph.tsx'
import { Age, Until } from '../components/time.tsx'
import { endWords, timesWords } from '../words.ts'
import styles from './crash.module.css'

interface CrashProps {
  readonly crash: CrashView
  readonly retryAt: string | undefined
}

export function Crash({ crash, retryAt }: CrashProps) {
  const { at, failures, message, firstError, guess, residentBytes } = crash
  return (
    <section className={styles['crash']} aria-label="Crash">
      <h2 className={styles['title']}>
        <ErrorGlyph />
        Crashed {timesWords(failures)}
      </h2>
      <p>{message}</p>
      {firstError !== undefined && <pre className={styles['error']}>{firstError}</pre>}
      {guess !== undefined && <p>{guess}</p>}
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
          <dd>{residentBytes === undefined ? 'Not reported' : formatBytes(residentBytes)}</dd>
        </div>
        <div>
          <dt>Next attempt</dt>
          <dd>{retryAt === undefined ? 'None' : <Until at={retryAt} />}</dd>
        </div>
      </dl>
    </section>
  )
}
