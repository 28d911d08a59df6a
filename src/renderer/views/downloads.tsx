import type { DownloadView } from '../../contract/models.ts'
import { Button } from '../components/button.tsx'
import { LongName } from '../components/long-name.tsx'
import { ProgressBar } from '../components/progress-bar.tsx'
import { Sentence } from '../components/sentence.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { progressWords } from '../words/services.ts'
import { modelWords } from '../words/views.ts'
import { Answer } from './answer.tsx'
import styles from './downloads.module.css'

/** Downloads that a person asked for; those of services are told with the service. */
export function Downloads() {
  const downloads = useSnapshot((snapshot) => snapshot.downloads)
  if (downloads.length === 0) return null
  return (
    <ul className={styles['downloads']} aria-label={modelWords.downloads}>
      {downloads.map((download) => (
        <Download key={download.name} download={download} />
      ))}
    </ul>
  )
}

function Download({ download: { name, state, message, progress } }: { readonly download: DownloadView }) {
  const about = `download/${name}`
  const ask = useWindow((store) => store.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const words = progress === undefined ? undefined : progressWords(progress)
  const goesOn = state === 'waiting' || state === 'downloading'
  return (
    <li className={styles['download']}>
      <div className={styles['first']}>
        <LongName name={name} />
        <span>{modelWords.states[state]}</span>
      </div>
      {goesOn && words !== undefined && (
        <>
          <ProgressBar label={modelWords.download(name)} percent={words.percent} />
          <p className={styles['aside']}>{words.text}</p>
        </>
      )}
      <p className={styles['aside']}>
        <Sentence text={message} />
      </p>
      {goesOn && (
        <div>
          <Button
            label={modelWords.cancel(name)}
            disabled={disabled}
            pending={pending}
            onPress={() => void ask(about, { name: 'cancelPull', model: name })}
          >
            {modelWords.cancelNow}
          </Button>
        </div>
      )}
      <Answer about={about} />
    </li>
  )
}
