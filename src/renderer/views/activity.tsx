import { useEffect, useRef, useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import { LinkError } from '../../contract/client.ts'
import type { CommandInput, ServiceRef } from '../../contract/commands.ts'
import type { HistoryEntry } from '../../contract/queries.ts'
import { Note, ViewPage } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { TextInput } from '../components/fields.tsx'
import { WarningGlyph } from '../components/glyph.tsx'
import { classNames, Sentence } from '../components/text.tsx'
import {
  daysOf,
  isProblem,
  type KnownHistory,
  matches,
  newerLimit,
  serviceOf,
  step,
  undosOf,
  withNewer,
  withOlder,
} from '../history.ts'
import { useLink, useSnapshot, useTrust, useWindow } from '../store.ts'
import { activityWords } from '../words/activity.ts'
import { Answer, AskButton } from './answer.tsx'
import styles from './activity.module.css'

/** What happened on this machine, newest first; new entries appear while it is open. */
export function Activity() {
  const { text, problemsOnly } = useWindow((state) => state.historyFilter)
  const filter = useWindow((state) => state.filterHistory)
  const services = useSnapshot((snapshot) => snapshot.services)
  const host = useSnapshot((snapshot) => snapshot.host)
  const trust = useTrust()
  const { history, problem, more } = useHistory()
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
      {history?.hasMore === true && <Button onPress={more}>{activityWords.more}</Button>}
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
        <p className={styles['message']}>
          <Sentence text={activityWords.message(entry)} />
        </p>
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

/** What happened on this machine: the agent tells when there is something newer, and only that is asked for. */
function useHistory() {
  const link = useLink()
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const newestId = useSnapshot((snapshot) => snapshot.newestHistoryId)
  const known = useRef<KnownHistory>(undefined)
  const latestId = useRef(newestId)
  const wishes = useRef({ newer: false, older: false })
  const isAsking = useRef(false)
  const [history, setHistory] = useState<KnownHistory>()
  /** Why there is no more, in a sentence. */
  const [problem, setProblem] = useState<string>()

  /** One page after the other, so that none is put beside what it was not asked for. */
  const askWishes = async () => {
    if (isAsking.current) return
    isAsking.current = true
    try {
      while (wishes.current.newer || wishes.current.older) {
        const before = wishes.current.newer ? undefined : known.current?.entries.at(-1)?.id
        wishes.current[wishes.current.newer ? 'newer' : 'older'] = false
        const limit = before === undefined ? newerLimit(known.current, latestId.current) : step
        const page = await link.query({ name: 'history', limit, ...(before !== undefined && { before }) })
        known.current = (before === undefined ? withNewer : withOlder)(known.current, page)
        setHistory(known.current)
        setProblem(undefined)
      }
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      wishes.current.older = false
      setProblem(error.message)
    } finally {
      isAsking.current = false
    }
  }

  useEffect(() => {
    latestId.current = newestId
    if (!connected || (known.current !== undefined && known.current.entries[0]?.id === newestId)) return
    wishes.current.newer = true
    void askWishes()
  }, [link, connected, newestId])

  const more = () => {
    wishes.current.older = true
    void askWishes()
  }
  return { history, problem, more }
}
