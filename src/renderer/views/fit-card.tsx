import type { FittedModelView } from '../../contract/fit.ts'
import { additionRequests } from '../addition.ts'
import { Banner } from '../components/banner.tsx'
import { ErrorGlyph, LinkGlyph, WarningGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/sentence.tsx'
import { Slider } from '../components/slider.tsx'
import type { FitAtContext } from '../fit-at-context.ts'
import { useWindow } from '../store.ts'
import { addWords } from '../words/add.ts'
import { fitWords } from '../words/fit.ts'
import { Answer } from './answer.tsx'
import { Card } from './card.tsx'
import { FitBar } from './fit-bar.tsx'
import styles from './fit-card.module.css'
import { Ways } from './ways.tsx'

const about = additionRequests.fit

const glyphs = {
  fits: <LinkGlyph link="live" />,
  afterUnloading: <WarningGlyph />,
  afterRaising: <WarningGlyph />,
  doesNotFit: <ErrorGlyph />,
}

interface FitCardProps {
  readonly model: FittedModelView
  /** Absent where what it takes with the wanted context is not known yet. */
  readonly at: FitAtContext | undefined
  /** It is looked up, or soon will be. */
  readonly isAsking: boolean
}

/** Whether it fits, before anything starts; the slider moves the estimate at once, and what would make it fit follows. */
export function FitCard({ model, at, isAsking }: FitCardProps) {
  const wanted = useWindow(({ addition }) => addition.contextSize)
  const write = useWindow((state) => state.writeAddition)
  const contextSize = wanted ?? model.contextSize
  const ways = [...model.unload.map(unloading), ...model.ways]
  return (
    <Card title={addWords.fit}>
      <p className={styles['aside']}>{addWords.facts(model)}</p>
      <p>{addWords.fetch(model)}</p>
      {model.diskProblem !== undefined && (
        <Banner tone="warn">
          <p>{model.diskProblem}</p>
        </Banner>
      )}
      <p className={styles['verdict']} role="status">
        {at === undefined ? (
          <span>{isAsking ? addWords.looking(contextSize) : addWords.notKnown(contextSize)}</span>
        ) : (
          <>
            {glyphs[at.verdict]}
            <strong>{addWords.verdicts[at.verdict]}</strong>
            <span>{addWords.total(at.totalBytes, contextSize)}</span>
          </>
        )}
      </p>
      {model.contexts.length > 1 && contextSize !== undefined && (
        <Slider
          label={addWords.context}
          stops={model.contexts.map((stop) => stop.contextSize)}
          value={contextSize}
          text={fitWords.tokens(contextSize)}
          onChange={(tokens) => write({ contextSize: tokens })}
        />
      )}
      {at !== undefined && <FitBar at={at} room={model.room} />}
      {at?.isExact === true && (
        <p>
          <Sentence text={model.message} />
        </p>
      )}
      <Answer about={about} />
      {at?.isExact === true && at.verdict !== 'fits' && ways.length > 0 && (
        <Ways
          about={about}
          ways={ways}
          context={{ effect: addWords.contextEffect, onUse: (tokens) => write({ contextSize: tokens }) }}
        />
      )}
      {at?.isExact === true && model.guess !== undefined && <p className={styles['aside']}>{model.guess}</p>}
      {model.notes.map((note) => (
        <p key={note} className={styles['aside']}>
          {note}
        </p>
      ))}
    </Card>
  )
}

const unloading = ({ namespace, name, freesBytes }: FittedModelView['unload'][number]) => ({
  kind: 'evict' as const,
  sentence: addWords.unload(name, freesBytes),
  evict: [`${namespace}/${name}`],
})
