import type { CrashView, ServiceView } from '../../contract/service.ts'
import { Folded } from '../components/folded.tsx'
import { ErrorGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/sentence.tsx'
import { Age, Until } from '../components/time.tsx'
import { useAnswer } from '../use-answer.ts'
import { crashWords } from '../words/detail.ts'
import styles from './crash.module.css'

interface CrashProps {
  readonly service: ServiceView
  readonly crash: CrashView
}

/** How the last server ended, what that most likely means, and what it printed before. */
export function Crash({ service, crash }: CrashProps) {
  const { at, message, guess, firstError } = crash
  const { state, retryAt } = service
  const isOver = state === 'ready'
  return (
    <section className={isOver ? styles['over'] : styles['crash']} aria-label={crashWords.title}>
      <h3 className={styles['title']}>
        <ErrorGlyph />
        {crashWords.crashed(crash, isOver)}
      </h3>
      {firstError !== undefined && <pre className={styles['error']}>{firstError}</pre>}
      <p>
        <Sentence text={guess ?? message} />
      </p>
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
      <LastLines service={service} crash={crash} />
    </section>
  )
}

function LastLines({ service: { namespace, name }, crash }: CrashProps) {
  const { answer, problem } = useAnswer({ name: 'server', service: { namespace, name } }, [crash.at])
  const lines = answer?.crashLines ?? []
  if (lines.length === 0) return problem === undefined ? null : <p className={styles['note']}>{problem}</p>
  const title = crashWords.lastLines(lines.length)
  return (
    <Folded title={title}>
      <pre className={styles['lines']} tabIndex={0} aria-label={title}>
        {lines.join('\n')}
      </pre>
    </Folded>
  )
}
