import type { FittedModelView, FitVerdict } from '../../contract/fit.ts'
import { additionRequests } from '../addition.ts'
import { Banner, Card } from '../components/blocks.tsx'
import { Slider } from '../components/fields.tsx'
import { ErrorGlyph, LinkGlyph, WarningGlyph } from '../components/glyph.tsx'
import { classNames, Said } from '../components/text.tsx'
import { useWindow } from '../store.ts'
import { addWords, fitWords } from '../words/models.ts'
import { memoryWords } from '../words/services.ts'
import { Answer } from './answer.tsx'
import { Ways } from './ways.tsx'
import styles from './fit-card.module.css'

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
      <Said look="quiet" text={addWords.facts(model)} />
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
      {at?.isExact === true && <Said text={model.message} />}
      <Answer about={about} />
      {at?.isExact === true && at.verdict !== 'fits' && ways.length > 0 && (
        <Ways
          about={about}
          ways={ways}
          context={{ effect: addWords.contextEffect, onUse: (tokens) => write({ contextSize: tokens }) }}
        />
      )}
      {at?.isExact === true && model.guess !== undefined && <Said look="quiet" text={model.guess} />}
      {model.notes.map((note) => (
        <Said key={note} look="quiet" text={note} />
      ))}
    </Card>
  )
}

const unloading = ({ namespace, name, freesBytes }: FittedModelView['unload'][number]) => ({
  kind: 'evict' as const,
  sentence: addWords.unload(name, freesBytes),
  evict: [`${namespace}/${name}`],
})

interface FitBarProps {
  readonly at: FitAtContext
  readonly room: FittedModelView['room']
}

/** What a model would take of the budget, beside what others hold. */
function FitBar({ at, room: { budgetBytes, committedBytes } }: FitBarProps) {
  const { weightsBytes, kvBytes, restBytes, totalBytes } = at
  const parts = [
    { key: 'held', name: addWords.held, bytes: committedBytes },
    { key: 'weights', name: addWords.weights, bytes: weightsBytes },
    { key: 'kv', name: addWords.kv, bytes: kvBytes },
    { key: 'rest', name: addWords.rest, bytes: restBytes },
  ]
  const whole = Math.max(budgetBytes, committedBytes + totalBytes, 1)
  const percent = (bytes: number) => `${((100 * bytes) / whole).toFixed(2)}%`
  return (
    <div>
      <div className={styles['scale']} aria-hidden="true">
        <div className={styles['bar']} data-chart>
          {parts.map(({ key, bytes }) => (
            <span key={key} className={classNames(styles['part'], styles[key])} style={{ width: percent(bytes) }} />
          ))}
        </div>
        {budgetBytes < whole && (
          <span className={styles['budget']} style={{ insetInlineStart: percent(budgetBytes) }} />
        )}
      </div>
      <ul className={styles['legend']}>
        {parts.map(({ key, name, bytes }) => (
          <li key={key}>
            <span className={classNames(styles['key'], styles[key])} aria-hidden="true" />
            {name} {memoryWords.size(bytes)}
          </li>
        ))}
        <li>
          <span className={styles['budgetKey']} aria-hidden="true" />
          {addWords.budget(budgetBytes)}
        </li>
      </ul>
    </div>
  )
}

/** What a model needs with some context. */
interface FitAtContext {
  readonly totalBytes: number
  readonly weightsBytes: number
  readonly kvBytes: number
  readonly restBytes: number
  readonly verdict: FitVerdict
  /** The agent was asked about this very context, so that its sentences and ways are about it too. */
  readonly isExact: boolean
}

interface Question {
  /** As the slider says it, or as one of the ways to fit has it; absent while it is left to its default. */
  readonly wanted: number | undefined
  /** The model is the answer to this very question. */
  readonly isCurrent: boolean
}

/** Undefined where nothing that is known is about this context: the answer is on its way. */
export function contextAt(model: FittedModelView, { wanted, isCurrent }: Question): FitAtContext | undefined {
  const { items, totalBytes, verdict, contextSize, contexts } = model
  const isExact = isCurrent || wanted === undefined || wanted === contextSize
  const now = isExact
    ? { totalBytes, kvBytes: items.kv, verdict }
    : contexts.find((stop) => stop.contextSize === wanted)
  return (
    now && {
      totalBytes: now.totalBytes,
      kvBytes: now.kvBytes,
      verdict: now.verdict,
      weightsBytes: items.weights,
      restBytes: Math.max(0, now.totalBytes - items.weights - now.kvBytes),
      isExact,
    }
  )
}
