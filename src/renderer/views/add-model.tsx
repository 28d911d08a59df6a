import { useEffect, useRef } from 'react'
import { Button } from '../components/button.tsx'
import { BackGlyph } from '../components/glyph.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { useChosenFocus } from '../use-chosen-focus.ts'
import { useKeptFocus } from '../use-kept-focus.ts'
import { addWords } from '../words/add.ts'
import { AddSource } from './add-source.tsx'
import { AskAboutModel } from './ask-about-model.tsx'
import styles from './add-model.module.css'

/** Makes a service of a model: which, whether it fits, and by what name. Escape goes back, and what was written is kept. */
export function AddModel() {
  const select = useWindow((state) => state.select)
  const addition = useWindow((state) => state.addition)
  const discard = useWindow((state) => state.discardAddition)
  const heading = useRef<HTMLHeadingElement>(null)
  useChosenFocus(heading)
  const keepFocus = useKeptFocus(heading)
  useOpenCreated()
  const { chosen } = addition
  return (
    <section
      className={styles['add']}
      aria-labelledby="add-model"
      {...keepFocus}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        // The next one is for the window.
        event.preventDefault()
        select(undefined)
      }}
    >
      <div className={styles['top']}>
        <Button look="plain" onPress={() => select(undefined)}>
          <BackGlyph />
          {addWords.back}
        </Button>
        <Button look="plain" onPress={discard}>
          {addWords.startOver}
        </Button>
      </div>
      <h2 id="add-model" className={styles['title']} ref={heading} tabIndex={-1}>
        {addWords.title}
      </h2>
      <AddSource />
      {chosen !== undefined && <AskAboutModel key={chosen} source={chosen} />}
    </section>
  )
}

/** Turns to the service that was created, as soon as it is seen here. */
function useOpenCreated() {
  const created = useWindow(({ addition }) => addition.created)
  const services = useSnapshot((snapshot) => snapshot.services)
  const select = useWindow((state) => state.select)
  const discard = useWindow((state) => state.discardAddition)
  const uid = services.find(({ namespace, name }) => namespace === created?.namespace && name === created.name)?.uid
  useEffect(() => {
    if (uid === undefined) return
    discard()
    select(uid)
  }, [uid, discard, select])
}
