import { useState } from 'react'
import { Command } from '../components/command.tsx'
import { useApp, useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { hubLoginWords } from '../words/settings/hub-login.ts'
import { KeptToken } from './kept-token.tsx'
import styles from './settings-places.module.css'

/** Where the token for the Hub comes from; the token itself is in no page. */
export function HubLogin() {
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const app = useApp()
  const [changes, setChanges] = useState(0)
  const { answer, problem } = useAnswer({ name: 'hubLogin' }, [revision, changes])
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
      {app === undefined ? (
        <>
          <p className={styles['note']}>{hubLoginWords.inTerminal}</p>
          <Command text={hubLoginWords.command} copyLabel={hubLoginWords.copyCommand} />
        </>
      ) : (
        <KeptToken app={app} login={answer} onChange={() => setChanges((before) => before + 1)} />
      )}
    </div>
  )
}
