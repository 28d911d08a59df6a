import { useState } from 'react'
import { isSupplyNews, supplyLine } from '../../contract/power.ts'
import { Button, Command } from '../components/buttons.tsx'
import { Sparkline } from '../components/charts.tsx'
import { trailLines, wattRange } from '../gauges.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer, useRequest } from '../use-answer.ts'
import { powerWords } from '../words/services.ts'
import { Answer } from './answer.tsx'
import styles from './power-strip.module.css'

/** What this machine draws, or why that is not known. */
export function PowerStrip() {
  const power = useSnapshot((snapshot) => snapshot.power)
  const figures = useSnapshot((snapshot) => snapshot.powerFigures)
  const isMac = useSnapshot(({ host }) => host.platform === 'darwin')
  return (
    <section className={styles['power']} aria-label={powerWords.title}>
      <div className={styles['first']}>
        <span className={styles['title']}>{powerWords.title}</span>
        {figures === undefined ? (
          (power?.message ?? (isMac ? <Off /> : <span className={styles['off']}>{powerWords.notHere}</span>))
        ) : (
          <>
            <Trail />
            <strong className={styles['watts']}>{powerWords.combined(figures)}</strong>
            <span className={styles['parts']}>{powerWords.parts(figures)}</span>
          </>
        )}
        <Supply />
      </div>
    </section>
  )
}

/** What it runs on, where that matters. */
function Supply() {
  const supply = useSnapshot((snapshot) => snapshot.supply)
  return supply && isSupplyNews(supply) ? <span className={styles['parts']}>{supplyLine(supply)}</span> : undefined
}

/** In the units of the drawing, which is stretched to the room there is. */
const box = { width: 120, height: 20 }

function Trail() {
  const trail = useWindow((state) => state.powerTrail)
  return <Sparkline label={powerWords.trail(wattRange(trail))} lines={trailLines(trail, box)} box={box} />
}

const Off = () => (
  <>
    <span className={styles['off']}>{powerWords.off}</span>
    <TurnOnPower />
  </>
)

const about = 'power'

/** The one thing that a person can do while power is off, and what came of it. */
export function TurnOnPower() {
  const trust = useTrust()
  const { pending, disabled, ask } = useRequest(about)
  const [shown, setShown] = useState(false)
  const turnOn = () => {
    if (trust === 'page') setShown(!shown)
    else void ask({ name: 'updateSettings', settings: { applePowerEnabled: true } })
  }
  return (
    <>
      <Button look="plain" disabled={disabled} pending={pending} onPress={turnOn}>
        {powerWords.turnOn}
      </Button>
      {shown && <How />}
      <Answer about={about} />
    </>
  )
}

/** What a page cannot do itself depends on what is set to measure, which the snapshot does not tell while power is off. */
function How() {
  const { answer, problem } = useAnswer({ name: 'settings' })
  const source = answer?.settings.find(({ name }) => name === 'powerSource')?.value
  return (
    <div className={styles['how']}>
      {answer === undefined ? (
        <p>{problem}</p>
      ) : (
        <>
          <p>{powerWords.takesShell(source)}</p>
          <Command text={powerWords.commands(source)} />
        </>
      )}
    </div>
  )
}
