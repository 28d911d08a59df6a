import type { ReactNode } from 'react'
import type { ServiceView } from '../../contract/service.ts'
import { WarningGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/sentence.tsx'
import { Age } from '../components/time.tsx'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { newsWords } from '../words/news.ts'
import { Card } from './card.tsx'
import styles from './service-news.module.css'

const minuteMs = 60_000
const shownEvents = 8

/** What the cluster says of a service. It is asked when the service is another, and each minute, since others write there too. */
export function ServiceNews({ service }: { readonly service: ServiceView }) {
  const { namespace, name } = service
  const minute = useSnapshot(({ now }) => Math.floor(Date.parse(now) / minuteMs))
  return (
    <>
      <Conditions of={{ namespace, name }} signs={[service, minute]} />
      <Events of={{ namespace, name }} signs={[service, minute]} />
    </>
  )
}

interface NewsProps {
  readonly of: { readonly namespace: string; readonly name: string }
  readonly signs: readonly unknown[]
}

function Conditions({ of, signs }: NewsProps) {
  const { answer, problem } = useAnswer({ name: 'conditions', service: of }, signs)
  if (answer === undefined && problem === undefined) return null
  return (
    <Card title={newsWords.conditions}>
      {problem !== undefined && <p className={styles['note']}>{problem}</p>}
      {answer?.conditions.length === 0 && <p className={styles['note']}>{newsWords.noConditions}</p>}
      <ul className={styles['list']}>
        {answer?.conditions.map(({ type, status, reason, message, since }) => (
          <Item
            key={type}
            title={`${type}: ${status}`}
            aside={reason}
            time={
              since !== undefined && (
                <>
                  {newsWords.since} <Age since={since} />
                </>
              )
            }
          >
            {message}
          </Item>
        ))}
      </ul>
    </Card>
  )
}

function Events({ of, signs }: NewsProps) {
  const { answer, problem } = useAnswer({ name: 'events', service: of, limit: shownEvents }, signs)
  if (answer === undefined && problem === undefined) return null
  return (
    <Card title={newsWords.events}>
      {problem !== undefined && <p className={styles['note']}>{problem}</p>}
      {answer?.events.length === 0 && <p className={styles['note']}>{newsWords.noEvents}</p>}
      <ul className={styles['list']}>
        {answer?.events.map((event, index) => (
          <Item
            key={`${event.at} ${event.reason} ${index}`}
            title={newsWords.event(event)}
            isWarning={event.type === 'Warning'}
            aside={event.source}
            time={
              <>
                <Age since={event.at} /> {newsWords.ago}
              </>
            }
          >
            {event.message}
          </Item>
        ))}
      </ul>
      {answer?.hasMore === true && <p className={styles['note']}>{newsWords.more(shownEvents)}</p>}
    </Card>
  )
}

interface ItemProps {
  readonly title: string
  readonly isWarning?: boolean
  readonly aside: string
  readonly time: ReactNode
  readonly children: string
}

const Item = ({ title, isWarning = false, aside, time, children }: ItemProps) => (
  <li>
    <p className={styles['first']}>
      {isWarning && <WarningGlyph />}
      <strong className={styles['title']}>{title}</strong>
      <span className={styles['note']}>{aside}</span>
      <span className={styles['time']}>{time}</span>
    </p>
    {children !== '' && (
      <p>
        <Sentence text={children} />
      </p>
    )}
  </li>
)
