import { useEffect, useRef } from 'react'
import { ListBox, ListBoxItem } from 'react-aria-components/ListBox'
import { percentOf, type ServiceView } from '../../contract/service.ts'
import { stateWord } from '../../contract/words.ts'
import { ProgressBar } from '../components/charts.tsx'
import { ChevronGlyph, StateGlyph, StepGlyph } from '../components/glyph.tsx'
import { classNames, LongName, Sentence, Spoken } from '../components/text.tsx'
import { rowSteps } from '../row-steps.ts'
import { useWindow } from '../store.ts'
import { detailWords, stepsWords, viewWords, workWords } from '../words/services.ts'
import styles from './service-list.module.css'

export function ServiceList({ services }: { readonly services: readonly ServiceView[] }) {
  const selected = useWindow((state) => state.selected)
  const select = useWindow((state) => state.select)
  const list = useRef<HTMLDivElement>(null)
  const lastOpen = useRef<string>(undefined)
  useEffect(() => {
    if (selected === undefined && lastOpen.current !== undefined) focusRow(list.current, lastOpen.current)
    lastOpen.current = selected
  }, [selected])
  return (
    <ListBox
      ref={list}
      aria-label={viewWords.services}
      className={classNames(styles['services'])}
      items={services}
      selectionMode="single"
      disallowEmptySelection
      selectedKeys={selected === undefined ? [] : [selected]}
      onSelectionChange={(keys) => {
        if (keys !== 'all') select([...keys].map(String)[0])
      }}
    >
      {(service) => (
        <ListBoxItem id={service.uid} textValue={service.name} className={classNames(styles['service'])}>
          <ServiceRow service={service} />
        </ListBoxItem>
      )}
    </ListBox>
  )
}

/** Back from a service, the focus is on the row that it was opened from. */
function focusRow(list: HTMLElement | null, uid: string): void {
  list?.querySelector<HTMLElement>(`[data-key="${CSS.escape(uid)}"]`)?.focus()
}

function ServiceRow({ service }: { readonly service: ServiceView }) {
  const { uid, name, state, message } = service
  return (
    <>
      <StateGlyph state={state} />
      <div className={styles['words']}>
        <div className={styles['first']}>
          <LongName name={name} />
          <span className={styles['state']} data-state={state}>
            {stateWord(service)}
          </span>
        </div>
        <Figures uid={uid} message={message} />
        <StepTrack steps={service.steps} state={state} />
      </div>
      <ChevronGlyph />
    </>
  )
}

/** What changes all the time is drawn by itself. */
function Figures({ uid, message }: { readonly uid: string; readonly message: string }) {
  const figures = useWindow(({ snapshot }) => snapshot?.figures[uid])
  const progress = figures?.progress
  if (progress === undefined) {
    const words = figures === undefined ? '' : workWords.row(figures)
    return (
      <>
        <p className={styles['message']}>
          <Sentence text={message} />
        </p>
        {words !== '' && <p className={styles['progress']}>{words}</p>}
      </>
    )
  }
  const percent = percentOf(progress)
  const text = detailWords.progress(progress)
  return (
    <>
      <ProgressBar label={detailWords.download} percent={percent} />
      <p className={styles['progress']}>{percent === undefined ? text : `${percent} % · ${text}`}</p>
    </>
  )
}

/** The five steps on one line, while a service is on its way or does not get there. */
function StepTrack({ steps, state }: Pick<ServiceView, 'steps' | 'state'>) {
  const track = rowSteps({ steps, state })
  if (track === undefined) return null
  return (
    <p className={styles['track']}>
      <Spoken>{stepsWords.row(track)}</Spoken>
      <span className={styles['marks']} aria-hidden="true">
        {track.statuses.map(([name, status]) => (
          <span key={name} className={styles['mark']} data-status={status}>
            <StepGlyph status={status} />
          </span>
        ))}
      </span>
      <span className={styles['at']} data-status={track.status} aria-hidden="true">
        {stepsWords.at(track)}
      </span>
    </p>
  )
}
