import { useRef } from 'react'
import type { ServiceView } from '../../contract/service.ts'
import { Button } from '../components/button.tsx'
import { BackGlyph, StateGlyph } from '../components/glyph.tsx'
import { ProgressBar } from '../components/progress-bar.tsx'
import { Sentence } from '../components/sentence.tsx'
import { Age, Until } from '../components/time.tsx'
import { useWindow } from '../store.ts'
import { useChosenFocus } from '../use-chosen-focus.ts'
import { useKeptFocus } from '../use-kept-focus.ts'
import { stateWord } from '../../contract/words.ts'
import { connectionWords } from '../words/connection.ts'
import { detailWords } from '../words/detail.ts'
import { progressWords, requestsWords, viewWords } from '../words/services.ts'
import { Absence } from './absence.tsx'
import { Facts, PlainCard } from './card.tsx'
import { Crash } from './crash.tsx'
import { DeleteService } from './delete-service.tsx'
import { LogView } from './log-view.tsx'
import { ServerDetails } from './server-details.tsx'
import { ServiceActions } from './service-actions.tsx'
import { ServiceAddresses } from './service-addresses.tsx'
import styles from './service-detail.module.css'
import { ServiceMemoryCard } from './service-memory.tsx'
import { ServiceWork } from './service-work.tsx'
import { ServiceNews } from './service-news.tsx'
import { Steps } from './steps.tsx'
import { WaysToFit } from './ways-to-fit.tsx'

/** One service, with all that can be said of it and done about it. Escape goes back to the list. */
export function ServiceDetail({ service }: { readonly service: ServiceView }) {
  const select = useWindow((state) => state.select)
  const heading = useRef<HTMLHeadingElement>(null)
  useChosenFocus(heading)
  const keepFocus = useKeptFocus(heading)
  const { uid, name, namespace, state, message, since, retryAt, crash } = service
  return (
    <section
      className={styles['detail']}
      aria-label={name}
      {...keepFocus}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        // The next one is for the window.
        event.preventDefault()
        select(undefined)
      }}
    >
      <div className={styles['back']}>
        <Button look="plain" onPress={() => select(undefined)}>
          <BackGlyph />
          {viewWords.services}
        </Button>
      </div>
      <PlainCard>
        <h2 className={styles['name']} ref={heading} tabIndex={-1}>
          {name}
        </h2>
        <p className={styles['state']}>
          <StateGlyph state={state} />
          <strong>{stateWord(service)}</strong>
          <span className={styles['aside']}>
            {detailWords.for} <Age since={since} /> · {detailWords.namespace(namespace)}
          </span>
        </p>
        <p>
          <Sentence text={message} />
        </p>
        {retryAt !== undefined && crash === undefined && (
          <p className={styles['aside']}>
            {connectionWords.nextTry} <Until at={retryAt} />.
          </p>
        )}
        <Figures uid={uid} />
        <ServiceActions service={service} />
      </PlainCard>
      {crash !== undefined && state !== 'ready' && <Crash service={service} crash={crash} />}
      <Absence service={service} />
      <WaysToFit service={service} />
      <Steps steps={service.steps} />
      {crash !== undefined && state === 'ready' && <Crash service={service} crash={crash} />}
      <ServiceWork service={service} />
      <ServiceAddresses service={service} />
      <ServiceMemoryCard service={service} />
      <PlainCard>
        <Facts
          facts={[
            [detailWords.model, service.model],
            [detailWords.server, detailWords.serverOf(service)],
            [detailWords.restarts, service.restarts],
          ]}
        />
      </PlainCard>
      <ServiceNews service={service} />
      <ServerDetails service={service} />
      <DeleteService service={service} />
      <LogView service={service} />
    </section>
  )
}

function Figures({ uid }: { readonly uid: string }) {
  const figures = useWindow(({ snapshot }) => snapshot?.figures[uid])
  if (figures === undefined) return null
  const { progress, requestsInFlight } = figures
  const words = progress === undefined ? undefined : progressWords(progress)
  return (
    <>
      {words !== undefined && (
        <div>
          <ProgressBar label={detailWords.download} percent={words.percent} />
          <p className={styles['aside']}>{words.text}</p>
        </div>
      )}
      {requestsInFlight !== undefined && <p className={styles['aside']}>{requestsWords(requestsInFlight)}</p>}
    </>
  )
}
