import { ToggleButton } from 'react-aria-components/ToggleButton'
import { Button } from '../components/button.tsx'
import { classNames } from '../components/class-names.ts'
import { TextInput } from '../components/text-input.tsx'
import { daysOf, isProblem, matches } from '../history-days.ts'
import { undosOf } from '../history-undo.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useHistory } from '../use-history.ts'
import { activityWords } from '../words/activity.ts'
import { HistoryItem } from './activity-item.tsx'
import styles from './activity.module.css'
import { Energy } from './energy.tsx'
import { Note, ViewPage } from './view-page.tsx'

/** What happened on this machine, newest first; it goes on while somebody looks. */
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
      <Energy />
      <h3 className={styles['part']}>{activityWords.history}</h3>
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
          <h4 className={styles['date']}>{day}</h4>
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
