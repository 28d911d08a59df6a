import type { CrashView } from '../../contract/service.ts'
import { ErrorGlyph } from '../components/glyph.tsx'
import { Age, Until } from '../components/time.tsx'
import { crashWords } from '../words/detail.ts'
import styles from './crash.module.css'

interface CrashProps {
  readonly crash: CrashView
  readonly retryAt: string | undefined
  /** A server serves again. */
  readonly isOver: boolean
}

export function Crash({ crash, retryAt, isOver }: CrashProps) {
  const { at, message, firstError } = crash
  return (
    <section className={isOver ? styles['over'] : styles['crash']} aria-label={crashWords.title}>
      <h3 className={styles['title']}>
        <ErrorGlyph />
        {crashWords.crashed(crash, isOver)}
      </h3>
      <p>{message}</p>
      {firstError !== undefined && <pre className={styles['error']}>{firstError}</pre>}
      <dl className={styles['facts']}>
        <div>
          <dt>{crashWords.how}</dt>
          <dd>{crashWords.end(crash)}</dd>
        </div>
        <div>
          <dt>{crashWords.when}</dt>
          <dd>
            <Age since={at} /> {crashWords.ago}
          </dd>
        </div>
        <div>
          <dt>{crashWords.memory}</dt>
          <dd>{crashWords.held(crash)}</dd>
        </div>
        {retryAt !== undefined && (
          <div>
            <dt>{crashWords.nextAttempt}</dt>
            <dd>
              <Until at={retryAt} />
            </dd>
          </div>
        )}
      </dl>
    </section>
  )
}
