import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { useQuestion } from '../use-question.ts'
import { placeWords } from '../words/places.ts'
import { Answer } from './answer.tsx'
import styles from './settings-places.module.css'

const about = 'context'

/** The kubeconfig, its contexts, and the one that is served. */
export function SettingsCluster() {
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  const trust = useTrust()
  const { answer, problem } = useAnswer({ name: 'contexts' }, [cluster.context, cluster.state])
  return (
    <div className={styles['place']}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && (
        <>
          <p>
            <strong>{placeWords.kubeconfig}</strong> {answer.kubeconfig}
          </p>
          <ul className={styles['choices']} aria-label={placeWords.contexts}>
            {answer.contexts.map(({ name, server, inUse }) => (
              <li key={name} className={styles['choice']}>
                <div className={styles['what']}>
                  <p className={styles['name']}>{name}</p>
                  <p className={styles['note']}>{server === '' ? placeWords.noServer : server}</p>
                </div>
                {inUse ? (
                  <span className={styles['note']}>{placeWords.inUse}</span>
                ) : (
                  trust === 'shell' && <Serve context={name} />
                )}
              </li>
            ))}
          </ul>
          {trust === 'page' && (
            <>
              <p className={styles['note']}>{placeWords.contextNeedsShell}</p>
              <Command text={placeWords.contextCommand} copyLabel={placeWords.copyContextCommand} />
            </>
          )}
        </>
      )}
      <Answer about={about} />
    </div>
  )
}

/** Another cluster takes the place of this one, so it is asked first. */
function Serve({ context }: { readonly context: string }) {
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const question = useQuestion()
  if (!question.isAsked) {
    return (
      <Button
        disabled={disabled}
        pending={pending}
        takesFocus={question.isOver}
        label={placeWords.serveOne(context)}
        onPress={question.open}
      >
        {placeWords.serve}
      </Button>
    )
  }
  const move = () => {
    question.close()
    void ask(about, { name: 'selectContext', context })
  }
  return (
    <div
      className={styles['question']}
      role="group"
      aria-label={placeWords.serveOne(context)}
      onKeyDown={question.onKeyDown}
    >
      <p>{placeWords.serveSure}</p>
      <Button disabled={disabled} onPress={move}>
        {placeWords.serveNow}
      </Button>
      <Button takesFocus onPress={question.close}>
        {placeWords.stay}
      </Button>
    </div>
  )
}
