import { useRef } from 'react'
import { percentOf, type ServiceView, type Step, type StepName, stepNames } from '../../contract/service.ts'
import { type Action, actionsFor, skipDrainOf, stateWord, stepWords } from '../../contract/words.ts'
import { Banner, Buttons, Facts, PlainCard } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { ProgressBar } from '../components/charts.tsx'
import { BackGlyph, StateGlyph, StepGlyph } from '../components/glyph.tsx'
import { Age, Said, Sentence, Since, Until } from '../components/text.tsx'
import { useChosenFocus, useKeptFocus } from '../focus.ts'
import { type Request, useConnected, useSnapshot, useWindow } from '../store.ts'
import { holdWords, detailWords, startDaemonWords, stepsWords, viewWords } from '../words/services.ts'
import { connectionWords, timeWords } from '../words/window.ts'
import { Answer, AskButton } from './answer.tsx'
import { AskBox } from './ask.tsx'
import {
  Crash,
  ServerDetails,
  ServiceAddresses,
  ServiceMemoryCard,
  ServiceNews,
  ServiceWork,
} from './service-cards.tsx'
import { DeleteService } from './delete-service.tsx'
import { LogView } from './log-view.tsx'
import { WaysToFit } from './ways.tsx'
import styles from './service-detail.module.css'

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
            <Age since={since} words={timeWords.lasts} /> · {detailWords.namespace(namespace)}
          </span>
        </p>
        <Said text={message} />
        {retryAt !== undefined && crash === undefined && (
          <p className={styles['aside']}>
            <Until at={retryAt} words={connectionWords.nextTry} />
          </p>
        )}
        <Figures uid={uid} />
        <ServiceActions service={service} />
      </PlainCard>
      {crash !== undefined && state !== 'ready' && <Crash service={service} crash={crash} />}
      <HoldNotice service={service} />
      <WaysToFit service={service} />
      <Steps steps={service.steps} />
      {crash !== undefined && state === 'ready' && <Crash service={service} crash={crash} />}
      <AskBox key={service.uid} service={service} />
      <ServiceWork service={service} />
      <ServiceAddresses service={service} />
      <ServiceMemoryCard service={service} />
      <PlainCard>
        <Facts
          facts={[
            [detailWords.model, service.model],
            ...(service.draft === undefined ? [] : [[detailWords.draft, service.draft] as const]),
            [detailWords.runtime, detailWords.runtimeOf(service)],
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
  return (
    <>
      {progress !== undefined && (
        <div>
          <ProgressBar label={detailWords.download} percent={percentOf(progress)} />
          <Said look="quiet" text={detailWords.progress(progress)} />
        </div>
      )}
      {requestsInFlight !== undefined && <Said look="quiet" text={detailWords.requests(requestsInFlight)} />}
    </>
  )
}

/** What can be asked for this service, and below it what came of the last request. */
function ServiceActions({ service }: { readonly service: ServiceView }) {
  const isDraining =
    useSnapshot(({ figures }) => figures[service.uid]?.requestsInFlight !== undefined) && service.state === 'stopping'
  const start = useStart(service)
  const actions = isDraining ? [skipDrainOf(service)] : actionsFor(service)
  return (
    <>
      {(actions.length > 0 || start !== undefined) && (
        <Buttons>
          {start !== undefined && (
            <AskButton
              look="prominent"
              about={service.uid}
              command={{ name: 'updateSettings', settings: { [start]: true } }}
            >
              {startDaemonWords[start]}
            </AskButton>
          )}
          {actions.map((action) => (
            <ActionButton key={action.label} about={service.uid} action={action} />
          ))}
        </Buttons>
      )}
      <Answer about={service.uid} />
    </>
  )
}

/** The setting that has the agent start what the service waits for. */
function useStart({ runtime, reason }: ServiceView) {
  const start = useSnapshot(({ runtimes }) => runtimes?.find(({ name }) => name === runtime)?.start)
  return reason === 'StartFailed' || reason === 'CrashLooping' ? start : undefined
}

function ActionButton({ about, action }: { readonly about: string; readonly action: Action }) {
  const ask = useWindow((state) => state.ask)
  const asked = useWindow(({ requests }) => pendingName(requests[about]))
  const connected = useConnected()
  const pending = asked === action.command.name
  return (
    <Button
      pending={pending}
      disabled={!connected || (asked !== undefined && !pending)}
      onPress={() => void ask(about, action.command)}
    >
      {pending ? action.pending : action.label}
    </Button>
  )
}

const pendingName = (request: Request | undefined) => (request?.state === 'pending' ? request.command.name : undefined)

/** Why this machine does not serve what the cluster wants, and what brings it back. */
export function HoldNotice({ service: { hold, state, message, since } }: { readonly service: ServiceView }) {
  if (state === 'foreign') {
    return (
      <Banner tone="note">
        <p>
          <Since at={since} words={holdWords.elsewhere} />
        </p>
        <p>{holdWords.takenBack}</p>
      </Banner>
    )
  }
  if (hold === undefined) return null
  return (
    <Banner tone={hold.by === 'pressure' ? 'warn' : 'note'}>
      {!message.includes(hold.message) && <Said text={hold.message} />}
      <p>
        <Since at={hold.since} words={holdWords.held} /> {holdWords.back(hold)}
      </p>
    </Banner>
  )
}

export function Steps({ steps }: { readonly steps: ServiceView['steps'] }) {
  return (
    <ol className={styles['steps']} aria-label={stepsWords.title}>
      {stepNames.map((name) => (
        <StepLine key={name} name={name} step={steps[name]} />
      ))}
    </ol>
  )
}

function StepLine({ name, step: { status, message } }: { readonly name: StepName; readonly step: Step }) {
  return (
    <li className={styles['step']} data-status={status}>
      <StepGlyph status={status} />
      <div className={styles['words']}>
        <span className={styles['stepsName']}>{stepWords[name]}</span>
        <span className={styles['status']}>
          <Sentence text={message ?? stepsWords.status[status]} />
        </span>
      </div>
    </li>
  )
}
