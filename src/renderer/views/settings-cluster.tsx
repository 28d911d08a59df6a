import { Command } from '../components/command.tsx'
import { Sentence } from '../components/sentence.tsx'
import { useSnapshot, useTrust } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { placeWords } from '../words/places.ts'
import { Answer } from './answer.tsx'
import { ContextChoice } from './context-choice.tsx'
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
            <strong>{placeWords.kubeconfig}</strong> <Sentence text={answer.kubeconfig} />
          </p>
          <ul className={styles['choices']} aria-label={placeWords.contexts}>
            {answer.contexts.map(({ name, server, inUse }) => (
              <li key={name} className={styles['choice']}>
                <div className={styles['what']}>
                  <p className={styles['name']}>{name}</p>
                  <p className={styles['note']}>
                    <Sentence text={server === '' ? placeWords.noServer : server} />
                  </p>
                </div>
                {inUse ? (
                  <span className={styles['note']}>{placeWords.inUse}</span>
                ) : (
                  trust === 'shell' && (
                    <ContextChoice context={{ name, server }} about={about} leaves label={placeWords.serveOne(name)}>
                      {placeWords.serve}
                    </ContextChoice>
                  )
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
