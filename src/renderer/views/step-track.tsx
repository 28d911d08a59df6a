import type { ServiceView } from '../../contract/service.ts'
import { StepGlyph } from '../components/glyph.tsx'
import { Spoken } from '../components/spoken.tsx'
import { rowSteps } from '../row-steps.ts'
import { stepsWords } from '../words/detail.ts'
import styles from './step-track.module.css'

/** The five steps on one line, while a service is on its way or does not get there. */
export function StepTrack({ steps, state }: Pick<ServiceView, 'steps' | 'state'>) {
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
