import { useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import type { HistoryEntry } from '../../contract/history.ts'
import { Button } from '../components/button.tsx'
import { classNames } from '../components/class-names.ts'
import { TextInput } from '../components/text-input.tsx'
import { daysOf, isProblem, matches } from '../history-days.ts'
import { useHistory } from '../use-history.ts'
import { activityWords } from '../words/views.ts'
import styles from './activity.module.css'
import { Energy } from './energy.tsx'
import { Note, ViewPage } from './view-page.tsx'

/** What happened on this machine, newest first; it goes on while somebody looks. */
export function Activity() {
  const [text, setText] = useState('')
  const [problemsOnly, setProblemsOnly] = useState(false)
  const { history, problem, more } = useHistory()
  const entries = history?.entries ?? []
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
      {history !== undefined && shown.length === 0 && (
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
      {history?.hasMore === true && <Button onPress={more}>{activityWords.more}</Button>}
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
