import { useSnapshot } from '../store.ts'
import { Sentence } from '../components/sentence.tsx'
import { useAnswer } from '../use-answer.ts'
import { firstRunWords } from '../words/first-run.ts'
import styles from './settings-places.module.css'

/** The programs that serve models, as they are found now. */
export function SettingsRuntimes() {
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const { answer, problem } = useAnswer({ name: 'runtimes' }, [revision])
  return (
    <div className={styles['place']}>
      {problem !== undefined && <p>{problem}</p>}
      {answer === undefined && problem === undefined && <p className={styles['note']}>{firstRunWords.looking}</p>}
      <ul className={styles['choices']} aria-label={firstRunWords.runtimes}>
        {answer?.runtimes.map((runtime) => (
          <li key={runtime.name}>
            <p>
              <strong className={styles['name']}>{runtime.name}</strong>{' '}
              <Sentence text={firstRunWords.runtime(runtime)} />
            </p>
            {runtime.message !== undefined && (
              <p className={styles['note']}>
                <Sentence text={runtime.message} />
              </p>
            )}
          </li>
        ))}
      </ul>
    </div>
  )
}
