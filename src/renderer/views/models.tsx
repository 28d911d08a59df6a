import { useState } from 'react'
import type { DownloadView, StoredModelView } from '../../contract/models.ts'
import { isLocalSource } from '../../contract/names.ts'
import { percentOf } from '../../contract/service.ts'
import { isWritten } from '../addition.ts'
import { Note, ViewPage } from '../components/blocks.tsx'
import { Button, SureButton } from '../components/buttons.tsx'
import { ProgressBar } from '../components/charts.tsx'
import { Form, TextInput } from '../components/fields.tsx'
import { Age, LongName, Said, Sentence } from '../components/text.tsx'
import { modelSigns, type Removal, removalOf } from '../model-store.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer, useRequest } from '../use-answer.ts'
import { addWords, modelWords } from '../words/models.ts'
import { detailWords } from '../words/services.ts'
import { Answer } from './answer.tsx'
import styles from './models.module.css'

/** The models in the store of this machine. */
export function Models() {
  const services = useSnapshot((snapshot) => snapshot.services)
  const downloads = useSnapshot((snapshot) => snapshot.downloads)
  const signs = useSnapshot(modelSigns)
  const requests = useWindow((state) => state.requests)
  const { answer, problem } = useAnswer({ name: 'models' }, [signs, requests])
  const models = answer?.models ?? []
  return (
    <ViewPage id="models" title={modelWords.title}>
      <Note>{problem}</Note>
      <Note>{answer?.problem}</Note>
      <PullModel />
      <Downloads />
      {answer !== undefined && models.length === 0 && <Note>{modelWords.none}</Note>}
      {models.length > 0 && (
        <ul className={styles['models']} aria-label={modelWords.stored}>
          {largestFirst(models).map((model) => (
            <ModelRow key={model.path} model={model} removal={removalOf(model.name, models, { services, downloads })} />
          ))}
        </ul>
      )}
      {answer !== undefined && (
        <Note>
          {modelWords.store(answer)}
          <br />
          {answer.directory}
        </Note>
      )}
      <Prune models={models} />
    </ViewPage>
  )
}

const largestFirst = (models: readonly StoredModelView[]) => models.toSorted((a, b) => b.sizeBytes - a.sizeBytes)

/** Fetches a model before any service wants it. */
function PullModel() {
  const [source, setSource] = useState('')
  const { pending, disabled, ask } = useRequest('pull')
  const wanted = source.trim()
  const pull = () => {
    if (wanted !== '' && !pending && !disabled) void ask({ name: 'pullModel', source: wanted })
  }
  return (
    <>
      <Form className={styles['pull']} onDone={pull}>
        <TextInput label={modelWords.pull} value={source} onChange={setSource} placeholder={modelWords.sourceHint} />
        <Button disabled={disabled || wanted === ''} pending={pending} onPress={pull}>
          {modelWords.pullNow}
        </Button>
      </Form>
      <Answer about="pull" />
    </>
  )
}

/** Downloads that a person asked for; those of services show with the service. */
function Downloads() {
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
  const { pending, disabled, ask } = useRequest(about)
  const goesOn = state === 'waiting' || state === 'downloading'
  return (
    <li className={styles['download']}>
      <div className={styles['first']}>
        <LongName name={name} />
        <span>{modelWords.states[state]}</span>
      </div>
      {goesOn && progress !== undefined && (
        <>
          <ProgressBar label={modelWords.download(name)} percent={percentOf(progress)} />
          <Said look="quiet" text={detailWords.progress(progress)} />
        </>
      )}
      <Said look="quiet" text={message} />
      {goesOn && (
        <div>
          <Button
            label={modelWords.cancel(name)}
            disabled={disabled}
            pending={pending}
            onPress={() => void ask({ name: 'cancelPull', model: name })}
          >
            {modelWords.cancelNow}
          </Button>
        </div>
      )}
      <Answer about={about} />
    </li>
  )
}

interface ModelRowProps {
  readonly model: StoredModelView
  /** Absent where it must not be deleted. */
  readonly removal: Removal | undefined
}

/** One model of the store. It is deleted only after a second press, and never while a service uses it. */
function ModelRow({ model, removal }: ModelRowProps) {
  const { name, source, lastUsedAt, prunable } = model
  const trust = useTrust()
  const canBeServed =
    model.state === 'complete' &&
    model.usedBy.length === 0 &&
    source !== '' &&
    (trust === 'shell' || !isLocalSource(source))
  const usage = modelWords.usage(model)
  return (
    <li className={styles['model']}>
      <div className={styles['first']}>
        <LongName name={name === '' ? modelWords.nameless : name} />
        <span className={styles['size']}>{modelWords.size(model)}</span>
      </div>
      {source !== '' && <Said look="quiet" text={source} />}
      <Said look="quiet" text={modelWords.facts(model)} />
      {(usage !== undefined || lastUsedAt !== undefined) && (
        <p>
          {usage !== undefined && <Sentence text={usage} />}
          {lastUsedAt !== undefined && (
            <>
              {' '}
              <Age since={lastUsedAt} words={modelWords.lastUsed} />
            </>
          )}
        </p>
      )}
      {usage === undefined && prunable !== undefined && <Said look="quiet" text={modelWords.prunable(prunable)} />}
      <div className={styles['ways']}>
        {canBeServed && <Serve name={name} source={source} />}
        {removal !== undefined && <Delete name={name} removal={removal} />}
      </div>
    </li>
  )
}

/** What a person has begun to add is discarded only after a question. */
function Serve({ name, source }: Pick<StoredModelView, 'name' | 'source'>) {
  const add = useWindow((state) => state.add)
  const addition = useWindow((state) => state.addition)
  const isBegun = addition.chosen === source && addition.created === undefined
  return (
    <SureButton
      label={addWords.serveOne(name)}
      question={!isBegun && isWritten(addition) ? addWords.serveSure(addition) : undefined}
      yes={addWords.serveInstead}
      no={addWords.keepWritten}
      onYes={() => (isBegun ? add() : add({ source, chosen: source, isFromStore: true, suggestedName: name }))}
    >
      {addWords.serve}
    </SureButton>
  )
}

function Delete({ name, removal }: { readonly name: string; readonly removal: Removal }) {
  const about = `model/${name}`
  const { pending, disabled, ask } = useRequest(about)
  return (
    <>
      <SureButton
        label={modelWords.deleteOne(name)}
        disabled={disabled}
        pending={pending}
        question={modelWords.sure(removal)}
        yes={modelWords.deleteNow}
        no={modelWords.keep}
        onYes={() => void ask({ name: 'removeModel', model: name })}
      >
        {modelWords.delete}
      </SureButton>
      <Answer about={about} />
    </>
  )
}

/** Deletes what no service uses, after it was shown what that is. */
function Prune({ models }: { readonly models: readonly StoredModelView[] }) {
  const { pending, disabled, ask } = useRequest('prune')
  const prunable = models.filter((model) => model.prunable !== undefined)
  return (
    <section className={styles['prune']} aria-label={modelWords.prune}>
      {prunable.length > 0 && (
        <SureButton
          disabled={disabled}
          pending={pending}
          question={
            <>
              <p>{modelWords.wouldDelete(prunable)}</p>
              <ul className={styles['names']}>
                {prunable.map(({ path, name, prunable: why }) => (
                  <li key={path}>
                    {name === '' ? path : name}: {why}
                  </li>
                ))}
              </ul>
            </>
          }
          yes={modelWords.pruneNow(prunable)}
          no={modelWords.keep}
          onYes={() => void ask({ name: 'pruneModels', dryRun: false })}
        >
          {modelWords.prunePreview}
        </SureButton>
      )}
      <Answer about="prune" />
    </section>
  )
}
