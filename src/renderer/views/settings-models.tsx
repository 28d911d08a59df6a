import { useSnapshot } from '../store.ts'
import { Sentence } from '../components/sentence.tsx'
import { useAnswer } from '../use-answer.ts'
import { placeWords } from '../words/places.ts'
import { HubLogin } from './hub-login.tsx'
import styles from './settings-places.module.css'

/** Where models are stored, how much room is left there, and what the Hub is asked with. */
export function SettingsModels() {
  const downloads = useSnapshot((snapshot) => snapshot.downloads.length)
  const { answer, problem } = useAnswer({ name: 'models' }, [downloads])
  return (
    <>
      <div className={styles['place']}>
        {problem !== undefined && <p>{problem}</p>}
        {answer !== undefined && (
          <>
            <p>
              <strong>{placeWords.folder}</strong> <Sentence text={answer.directory} />
            </p>
            <p className={styles['note']}>{placeWords.free(answer)}</p>
          </>
        )}
      </div>
      <HubLogin />
    </>
  )
}
