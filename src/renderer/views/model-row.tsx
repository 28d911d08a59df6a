import type { StoredModelView } from '../../contract/models.ts'
import { isLocalSource } from '../../contract/names.ts'
import { isWritten } from '../addition.ts'
import { Button } from '../components/button.tsx'
import { LongName } from '../components/long-name.tsx'
import { Sentence } from '../components/sentence.tsx'
import { Age } from '../components/time.tsx'
import type { Removal } from '../model-removal.ts'
import { useTrust, useWindow } from '../store.ts'
import { useQuestion } from '../use-question.ts'
import { addWords } from '../words/add.ts'
import { modelWords } from '../words/views.ts'
import { Answer } from './answer.tsx'
import styles from './model-row.module.css'

interface ModelRowProps {
  readonly model: StoredModelView
  /** Absent where it must not be deleted. */
  readonly removal: Removal | undefined
}

/** One model of the store. It is deleted only after a second press, and never while a service uses it. */
export function ModelRow({ model, removal }: ModelRowProps) {
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
      {source !== '' && (
        <p className={styles['aside']}>
          <Sentence text={source} />
        </p>
      )}
      <p className={styles['aside']}>{modelWords.facts(model)}</p>
      {(usage !== undefined || lastUsedAt !== undefined) && (
        <p>
          {usage !== undefined && <Sentence text={usage} />}
          {lastUsedAt !== undefined && (
            <>
              {' '}
              {modelWords.lastUsed} <Age since={lastUsedAt} /> {modelWords.ago}.
            </>
          )}
        </p>
      )}
      {usage === undefined && prunable !== undefined && (
        <p className={styles['aside']}>{modelWords.prunable(prunable)}</p>
      )}
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
  const question = useQuestion()
  const serve = () => add({ source, chosen: source, isFromStore: true, suggestedName: name })
  const press = () => {
    if (addition.chosen === source && addition.created === undefined) add()
    else if (isWritten(addition)) question.open()
    else serve()
  }
  return (
    <div className={styles['actions']} onKeyDown={question.onKeyDown}>
      {question.isAsked ? (
        <>
          <span>{addWords.serveSure(addition)}</span>
          <Button onPress={serve}>{addWords.serveInstead}</Button>
          <Button takesFocus onPress={question.close}>
            {addWords.keepWritten}
          </Button>
        </>
      ) : (
        <Button label={addWords.serveOne(name)} takesFocus={question.isOver} onPress={press}>
          {addWords.serve}
        </Button>
      )}
    </div>
  )
}

function Delete({ name, removal }: { readonly name: string; readonly removal: Removal }) {
  const about = `model/${name}`
  const question = useQuestion()
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  return (
    <>
      <div className={styles['actions']} onKeyDown={question.onKeyDown}>
        {question.isAsked ? (
          <>
            <span>{modelWords.sure(removal)}</span>
            <Button
              disabled={disabled}
              pending={pending}
              onPress={() => {
                question.close()
                void ask(about, { name: 'removeModel', model: name })
              }}
            >
              {modelWords.deleteNow}
            </Button>
            <Button takesFocus onPress={question.close}>
              {modelWords.keep}
            </Button>
          </>
        ) : (
          <Button
            label={modelWords.deleteOne(name)}
            disabled={disabled}
            pending={pending}
            takesFocus={question.isOver}
            onPress={question.open}
          >
            {modelWords.delete}
          </Button>
        )}
      </div>
      <Answer about={about} />
    </>
  )
}
