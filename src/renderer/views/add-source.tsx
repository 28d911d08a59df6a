import { useRef } from 'react'
import { catalogue } from '../../contract/catalogue.ts'
import { isLocalSource } from '../../contract/names.ts'
import { isPasted, sourceProblem } from '../addition.ts'
import { Button } from '../components/button.tsx'
import { TextInput } from '../components/text-input.tsx'
import { modelSigns } from '../model-signs.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { addWords } from '../words/add.ts'
import styles from './add-model.module.css'
import { Choices } from './choices.tsx'

/** Where the model comes from: pasted, or chosen from the store or the well-known ones, which what is written filters. */
export function AddSource() {
  const source = useWindow(({ addition }) => addition.source)
  const chosen = useWindow(({ addition }) => addition.chosen)
  const write = useWindow((state) => state.writeAddition)
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const wanted = source.trim()
  const problem = wanted === '' ? undefined : sourceProblem(wanted)
  const canLook = !disabled && wanted !== '' && problem === undefined && wanted !== chosen
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
          onChange={(text) =>
            write({ source: text, chosen: isPasted(source, text) ? text.trim() : undefined, contextSize: undefined })
          }
          placeholder={addWords.sourceHint}
          help={addWords.sourceHelp}
          problem={problem}
        />
        <Button disabled={!canLook} onPress={press}>
          {addWords.look}
        </Button>
      </form>
      {chosen === undefined && <Offers words={wanted} />}
    </>
  )
}

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
          if (model !== undefined) write({ source: model.source, chosen: model.source })
        }}
      />
      <Choices
        title={addWords.wellKnown}
        choices={known.map((entry) => ({ id: entry.name, name: entry.title, text: addWords.known(entry) }))}
        onChoose={(name) => write({ source: name, chosen: name })}
      />
      {stored.length + known.length === 0 && <p className={styles['aside']}>{addWords.noMatch}</p>}
    </>
  )
}
