import { useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import type { HistoryEntry } from '../../contract/history.ts'
import { maxPage } from '../../contract/queries.ts'
import { Button } from '../components/button.tsx'
import { classNames } from '../components/class-names.ts'
import { TextInput } from '../components/text-input.tsx'
import { daysOf, isProblem, matches } from '../history-days.ts'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { activityWords } from '../words/views.ts'
import styles from './activity.module.css'
import { Energy } from './energy.tsx'
import { Note, ViewPage } from './view-page.tsx'

/** Shown at first, and more at each press. */
const step = 50

/** What happened on this machine, newest first. */
export function Activity() {
  const [limit, setLimit] = useState(step)
  const [text, setText] = useState('')
  const [problemsOnly, setProblemsOnly] = useState(false)
  const services = useSnapshot((snapshot) => snapshot.services)
  const host = useSnapshot((snapshot) => snapshot.host)
  const { answer, problem } = useAnswer({ name: 'history', limit }, [services, host])
  const entries = answer?.entries ?? []
  const shown = entries.filter((entry) => matches(entry, text) && (!problemsOnly || isProblem(entry)))
  return (
    <ViewPage id="activity" title={activityWords.title}>
      <Energy />
      <h3 className={styles['part']}>{activityWords.history}</h3>
      <div className={styles['filter']}>
        <TextInput
          label={activityWords.filter}
          value={text}
          onChange={setText}
          placeholder={activityWords.filterHint}
        />
        <ToggleButton className={classNames(styles['toggle'])} isSelected={problemsOnly} onChange={setProblemsOnly}>
          {activityWords.problemsOnly}
        </ToggleButton>
      </div>
      <Note>{problem}</Note>
      {answer !== undefined && shown.length === 0 && (
        <Note>{entries.length === 0 ? activityWords.nothing : activityWords.noMatch}</Note>
      )}
      {daysOf(shown).map(({ day, entries: ofDay }) => (
        <section key={day} className={styles['day']} aria-label={day}>
          <h4 className={styles['date']}>{day}</h4>
          <ol className={styles['entries']}>
            {ofDay.map((entry) => (
              <Entry key={entry.id} entry={entry} />
            ))}
          </ol>
        </section>
      ))}
      {answer?.hasMore === true && limit < maxPage && (
        <Button onPress={() => setLimit(Math.min(maxPage, limit + step))}>{activityWords.more}</Button>
      )}
    </ViewPage>
  )
}

function Entry({ entry }: { readonly entry: HistoryEntry }) {
  const { at, kind, service, message } = entry
  return (
    <li className={styles['entry']} data-problem={isProblem(entry)}>
      <time className={styles['time']} dateTime={at}>
        {activityWords.time(at)}
      </time>
      <div className={styles['what']}>
        <p>
          <strong>{activityWords.kinds[kind]}</strong>
          {service !== undefined && ` · ${service.name}`}
        </p>
        <p className={styles['message']}>{message}</p>
      </div>
    </li>
  )
}
