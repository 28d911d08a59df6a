import { Command } from '../components/command.tsx'
import { useSnapshot, useTrust } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { hubLoginWords } from '../words/settings/hub-login.ts'
import styles from './settings-places.module.css'

/** Where the token for the Hub comes from; the token itself is in no page. */
export function HubLogin() {
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const trust = useTrust()
  const { answer, problem } = useAnswer({ name: 'hubLogin' }, [revision])
  return (
    <div className={styles['place']}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && (
        <>
          <p>
            <strong>{hubLoginWords.title}</strong> {hubLoginWords.source(answer)}
          </p>
          {answer.problem !== undefined && <p>{answer.problem}</p>}
        </>
      )}
      {trust === 'page' && (
        <>
          <p className={styles['note']}>{hubLoginWords.inTerminal}</p>
          <Command text={hubLoginWords.command} copyLabel={hubLoginWords.copyCommand} />
        </>
      )}
    </div>
  )
}
