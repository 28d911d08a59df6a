import { useRef } from 'react'
import { catalogue } from '../../contract/model-application.ts'
import { isLocalSource } from '../../contract/names.ts'
import { isPasted, secretProblem, sourceProblem, takesSecret } from '../addition.ts'
import { Button } from '../components/button.tsx'
import { TextInput } from '../components/text-input.tsx'
import { modelSigns } from '../model-signs.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { addWords } from '../words/add.ts'
import styles from './add-model.module.css'
import { Choices } from './choices.tsx'

/** Where the model comes from: pasted, or chosen from the store or the well-known ones, which what is written filters; and what opens it. */
export function AddSource() {
  const addition = useWindow((state) => state.addition)
  const write = useWindow((state) => state.writeAddition)
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const { source, chosen, secret } = addition
  const wanted = source.trim()
  const problem = wanted === '' ? undefined : sourceProblem(wanted)
  const wrongSecret = secretProblem(addition)
  const canLook = !disabled && wanted !== '' && problem === undefined && wrongSecret === undefined && wanted !== chosen
  const look = () => {
    if (canLook) write({ chosen: wanted, contextSize: undefined })
  }
  // The button cannot be pressed again, so that the focus would be lost with it.
  const form = useRef<HTMLFormElement>(null)
  const press = () => {
    look()
    form.current?.querySelector('input')?.focus()
  }
  return (
    <>
      <form
        ref={form}
        className={styles['source']}
        onSubmit={(event) => {
          event.preventDefault()
          look()
        }}
      >
        <TextInput
          label={addWords.source}
          value={source}
          onChange={(text) => {
            const isWhole = isPasted(source, text) && secretProblem({ ...written(text), secret }) === undefined
            write({ ...written(text), chosen: isWhole ? text.trim() : undefined, contextSize: undefined })
          }}
          placeholder={addWords.sourceHint}
          help={addWords.sourceHelp}
          problem={problem}
        />
        <Button disabled={!canLook} onPress={press}>
          {addWords.look}
        </Button>
      </form>
      {takesSecret(addition) && (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            look()
          }}
        >
          <TextInput
            label={addWords.secret}
            value={secret}
            onChange={(text) => write({ secret: text, chosen: undefined, contextSize: undefined })}
            help={addWords.secretHelp}
            problem={wrongSecret}
          />
        </form>
      )}
      {chosen === undefined && <Offers words={wanted} />}
    </>
  )
}

const written = (source: string) => ({ source, isFromStore: false })

/** Those that have every word of what is written. */
function Offers({ words }: { readonly words: string }) {
  const trust = useTrust()
  const write = useWindow((state) => state.writeAddition)
  const { answer, problem } = useAnswer({ name: 'models' }, [useSnapshot(modelSigns)])
  const matches = (...texts: readonly string[]) => {
    const text = texts.join(' ').toLowerCase()
    return words
      .toLowerCase()
      .split(/\s+/)
      .every((word) => text.includes(word))
  }
  const stored = (answer?.models ?? []).filter(
    ({ state, source, name }) =>
      state === 'complete' && source !== '' && (trust === 'shell' || !isLocalSource(source)) && matches(name, source),
  )
  const known = catalogue.filter(({ name, title }) => matches(name, title))
  return (
    <>
      {problem !== undefined && <p className={styles['aside']}>{problem}</p>}
      <Choices
        title={addWords.inStore}
        choices={stored.map((model) => ({ id: model.path, name: model.name, text: addWords.stored(model) }))}
        onChoose={(id) => {
          const model = stored.find(({ path }) => path === id)
          if (model !== undefined) write({ source: model.source, chosen: model.source, isFromStore: true })
        }}
      />
      <Choices
        title={addWords.wellKnown}
        choices={known.map((entry) => ({ id: entry.name, name: entry.title, text: addWords.known(entry) }))}
        onChoose={(name) => write({ ...written(name), chosen: name })}
      />
      {stored.length + known.length === 0 && <p className={styles['aside']}>{addWords.noMatch}</p>}
    </>
  )
}
