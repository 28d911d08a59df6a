import { useState } from 'react'
import { Button } from '../components/button.tsx'
import { TextInput } from '../components/text-input.tsx'
import { useWindow } from '../store.ts'
import { modelWords } from '../words/views.ts'
import { Answer } from './answer.tsx'
import styles from './pull-model.module.css'

const about = 'pull'

/** Fetches a model before any service wants it. */
export function PullModel() {
  const [source, setSource] = useState('')
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const wanted = source.trim()
  return (
    <>
      <form
        className={styles['pull']}
        onSubmit={(event) => {
          event.preventDefault()
          if (wanted !== '' && !pending && !disabled) void ask(about, { name: 'pullModel', source: wanted })
        }}
      >
        <TextInput label={modelWords.pull} value={source} onChange={setSource} placeholder={modelWords.sourceHint} />
        <Button
          disabled={disabled || wanted === ''}
          pending={pending}
          onPress={() => void ask(about, { name: 'pullModel', source: wanted })}
        >
          {modelWords.pullNow}
        </Button>
      </form>
      <Answer about={about} />
    </>
  )
}
