import { useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import type { CommandInput, ServiceRef } from '../../contract/commands.ts'
import { type HistoryEntry, maxPage } from '../../contract/queries.ts'
import { Note, ViewPage } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { TextInput } from '../components/fields.tsx'
import { WarningGlyph } from '../components/glyph.tsx'
import { classNames, Said } from '../components/text.tsx'
import { daysOf, isProblem, matches, serviceOf, undosOf } from '../history.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { activityWords } from '../words/activity.ts'
import { Answer, AskButton } from './answer.tsx'
import styles from './activity.module.css'

/** So many entries are shown at first, and twice as many at each wish for more. */
const firstEntries = 50

/** What happened on this machine, newest first; new entries appear while it is open. */
export function Activity() {
  const { text, problemsOnly } = useWindow((state) => state.historyFilter)
  const filter = useWindow((state) => state.filterHistory)
  const services = useSnapshot((snapshot) => snapshot.services)
  const host = useSnapshot((snapshot) => snapshot.host)
  const trust = useTrust()
  const newestId = useSnapshot((snapshot) => snapshot.newestHistoryId)
  const [limit, setLimit] = useState(firstEntries)
  const { answer: history, problem } = useAnswer({ name: 'history', limit }, [newestId])
  const entries = history?.entries ?? []
  const undos = undosOf(entries, { snapshot: { services, host }, trust })
  const shown = entries.filter((entry) => matches(entry, text) && (!problemsOnly || isProblem(entry)))
  return (
    <ViewPage id="activity" title={activityWords.title}>
      <div className={styles['filter']}>
        <TextInput
          label={activityWords.filter}
          value={text}
          onChange={(written) => filter({ text: written })}
          placeholder={activityWords.filterHint}
        />
        <ToggleButton
          className={classNames(styles['toggle'])}
          isSelected={problemsOnly}
          onChange={(isSelected) => filter({ problemsOnly: isSelected })}
        >
          {activityWords.problemsOnly}
        </ToggleButton>
      </div>
      <Note>{problem}</Note>
      {history !== undefined && shown.length === 0 && (
        <Note>{entries.length === 0 ? activityWords.nothing : activityWords.noMatch}</Note>
      )}
      {daysOf(shown).map(({ day, entries: ofDay }) => (
        <section key={day} className={styles['day']} aria-label={day}>
          <h3 className={styles['date']}>{day}</h3>
          <ol className={styles['entries']}>
            {ofDay.map((entry) => (
              <HistoryItem key={entry.id} entry={entry} undo={undos.get(entry.id)} />
            ))}
          </ol>
        </section>
      ))}
      {history?.hasMore === true && (
        <Button onPress={() => setLimit(Math.min(maxPage, 2 * limit))}>{activityWords.more}</Button>
      )}
    </ViewPage>
  )
}

interface HistoryItemProps {
  readonly entry: HistoryEntry
  /** Absent where nothing takes it back. */
  readonly undo: CommandInput | undefined
}

/** One thing that happened, with the way to its service and back. */
function HistoryItem({ entry, undo }: HistoryItemProps) {
  const { id, at, kind, service } = entry
  const about = `history/${id}`
  const hasProblem = isProblem(entry)
  return (
    <li className={styles['entry']} data-problem={hasProblem}>
      <time className={styles['time']} dateTime={at}>
        {activityWords.time(at)}
      </time>
      <div className={styles['what']}>
        <div className={styles['first']}>
          {hasProblem && <WarningGlyph />}
          <strong>{activityWords.kinds[kind]}</strong>
          {service !== undefined && <ServiceName service={service} />}
        </div>
        <Said look="quiet" text={activityWords.message(entry)} />
        {undo !== undefined && (
          <div className={styles['undo']}>
            <AskButton about={about} command={undo}>
              {activityWords.undo(undo)}
            </AskButton>
          </div>
        )}
        <Answer about={about} />
      </div>
    </li>
  )
}

/** The way to it, while it is there. */
function ServiceName({ service }: { readonly service: ServiceRef }) {
  const uid = useSnapshot(({ services }) => serviceOf(service, services)?.uid)
  const select = useWindow((state) => state.select)
  const { name } = service
  if (uid === undefined) return <span className={styles['name']}>{name}</span>
  return (
    <Button look="link" label={activityWords.open(name)} onPress={() => select(uid)}>
      {name}
    </Button>
  )
}
