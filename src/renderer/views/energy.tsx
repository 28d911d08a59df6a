import { useState } from 'react'
import { Choice } from '../components/choice.tsx'
import { Sentence } from '../components/sentence.tsx'
import { energyQuery, energyTimes, type EnergyTime } from '../energy-time.ts'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { energyWords } from '../words/energy.ts'
import { EnergyFigures } from './energy-figures.tsx'
import styles from './energy.module.css'
import { TurnOnPower } from './turn-on-power.tsx'
import { Note } from './view-page.tsx'

const minuteMs = 60_000

/** What this machine and each service drew, by the hour or day. */
export function Energy() {
  const [time, setTime] = useState<EnergyTime>('week')
  return (
    <section className={styles['energy']} aria-labelledby="energy">
      <div className={styles['first']}>
        <h3 id="energy" className={styles['title']}>
          {energyWords.title}
        </h3>
        <Choice
          label={energyWords.time}
          options={energyTimes}
          words={energyWords.times}
          value={time}
          onChange={setTime}
        />
      </div>
      <PowerOff />
      {/* Anew for each: figures of one time are never shown as those of another. */}
      <OfTime key={time} time={time} />
    </section>
  )
}

/** What there is to turn on; nothing where power is on. */
function PowerOff() {
  const isOff = useSnapshot(({ power }) => power === undefined)
  const isMac = useSnapshot(({ host }) => host.platform === 'darwin')
  if (!isOff) return null
  if (!isMac) return <Note>{energyWords.notHere}</Note>
  return (
    <div className={styles['off']}>
      <p>{energyWords.notMeasured}</p>
      <TurnOnPower />
    </div>
  )
}

/** Renewed each minute in which the agent says something; while it says nothing, nothing is drawn that it could count. */
function OfTime({ time }: { readonly time: EnergyTime }) {
  const minute = useSnapshot(({ now }) => Math.floor(Date.parse(now) / minuteMs))
  const state = useSnapshot(({ power }) => power?.state)
  // The price is one of them.
  const settings = useSnapshot((snapshot) => snapshot.settingsRevision)
  const now = minute * minuteMs
  const utcOffsetMinutes = -new Date(now).getTimezoneOffset()
  const { answer, problem } = useAnswer(energyQuery(time, { now, utcOffsetMinutes }), [minute, state, settings])
  return (
    <>
      <Note>{problem}</Note>
      {answer !== undefined && <EnergyFigures view={answer} time={time} />}
      {answer !== undefined && state !== undefined && (
        <Note>
          <Sentence text={answer.message} />
        </Note>
      )}
    </>
  )
}
