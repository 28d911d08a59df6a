import type { CommandInput, ServiceRef } from '../../contract/commands.ts'
import type { HistoryEntry } from '../../contract/queries.ts'
import { Button } from '../components/button.tsx'
import { WarningGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/sentence.tsx'
import { isProblem } from '../history-days.ts'
import { serviceOf } from '../history-undo.ts'
import { useSnapshot, useWindow } from '../store.ts'
import { usePressed } from '../use-pressed.ts'
import { activityWords } from '../words/activity.ts'
import styles from './activity.module.css'
import { Answer } from './answer.tsx'

interface HistoryItemProps {
  readonly entry: HistoryEntry
  /** Absent where nothing takes it back. */
  readonly undo: CommandInput | undefined
}

/** One thing that happened, with the way to its service and back. */
export function HistoryItem({ entry, undo }: HistoryItemProps) {
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
        {undo !== undefined && <Undo about={about} command={undo} />}
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

function Undo({ about, command }: { readonly about: string; readonly command: CommandInput }) {
  const ask = useWindow((state) => state.ask)
  return (
    <div className={styles['undo']}>
      <Button {...usePressed(about, command)} onPress={() => void ask(about, command)}>
        {activityWords.undo(command)}
      </Button>
    </div>
  )
}
