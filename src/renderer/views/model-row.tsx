import { useState } from 'react'
import type { StoredModelView } from '../../contract/models.ts'
import { Button } from '../components/button.tsx'
import { LongName } from '../components/long-name.tsx'
import { Age } from '../components/time.tsx'
import { useWindow } from '../store.ts'
import { modelWords } from '../words/views.ts'
import { Answer } from './answer.tsx'
import styles from './model-row.module.css'

/** One model of the store. It is deleted only after a second press, and never while a service uses it. */
export function ModelRow({ model }: { readonly model: StoredModelView }) {
  const { name, source, state, usedBy, lastUsedAt, prunable } = model
  return (
    <li className={styles['model']}>
      <div className={styles['first']}>
        <LongName name={name === '' ? modelWords.nameless : name} />
        <span className={styles['size']}>{modelWords.size(model)}</span>
      </div>
      {source !== '' && <p className={styles['aside']}>{source}</p>}
      <p className={styles['aside']}>{modelWords.facts(model)}</p>
      <p>
        {usedBy.length === 0 ? modelWords.unused : modelWords.usedBy(usedBy)}
        {lastUsedAt !== undefined && (
          <>
            {' '}
            {modelWords.lastUsed} <Age since={lastUsedAt} /> {modelWords.ago}.
          </>
        )}
      </p>
      {prunable !== undefined && <p className={styles['aside']}>{prunable}</p>}
      {name !== '' && state !== 'quarantined' && usedBy.length === 0 && <Delete model={model} />}
    </li>
  )
}

function Delete({ model: { name, sizeBytes } }: { readonly model: StoredModelView }) {
  const about = `model/${name}`
  const [asked, setAsked] = useState(false)
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  return (
    <>
      <div className={styles['actions']}>
        {asked ? (
          <>
            <span>{modelWords.sure(sizeBytes)}</span>
            <Button
              disabled={disabled}
              pending={pending}
              onPress={() => {
                setAsked(false)
                void ask(about, { name: 'removeModel', model: name })
              }}
            >
              {modelWords.deleteNow}
            </Button>
            <Button onPress={() => setAsked(false)}>{modelWords.keep}</Button>
          </>
        ) : (
          <Button
            label={modelWords.deleteOne(name)}
            disabled={disabled}
            pending={pending}
            onPress={() => setAsked(true)}
          >
            {modelWords.delete}
          </Button>
        )}
      </div>
      <Answer about={about} />
    </>
  )
}
