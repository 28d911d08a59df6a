import { useState } from 'react'
import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { Sparkline } from '../components/sparkline.tsx'
import { trailLines, wattRange } from '../power-trail.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { powerWords } from '../words.ts'
import { Answer } from './answer.tsx'
import styles from './power-strip.module.css'

/** What this machine draws, or why that is not known. */
export function PowerStrip() {
  const power = useSnapshot((snapshot) => snapshot.power)
  const figures = useSnapshot((snapshot) => snapshot.powerFigures)
  return (
    <section className={styles['power']} aria-label={powerWords.title}>
      <div className={styles['first']}>
        <span className={styles['title']}>{powerWords.title}</span>
        {figures === undefined ? (
          (power?.message ?? <Off />)
        ) : (
          <>
            <Trail />
            <strong className={styles['watts']}>{powerWords.combined(figures)}</strong>
            <span className={styles['parts']}>{powerWords.parts(figures)}</span>
          </>
        )}
      </div>
    </section>
  )
}

/** In the units of the drawing, which is stretched to the room there is. */
const box = { width: 120, height: 20 }

function Trail() {
  const trail = useWindow((state) => state.powerTrail)
  return <Sparkline label={powerWords.trail(wattRange(trail))} lines={trailLines(trail, box)} box={box} />
}

const about = 'power'

function Off() {
  const trust = useTrust()
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const [shown, setShown] = useState(false)
  const turnOn = () => {
    if (trust === 'page') setShown(!shown)
    else void ask(about, { name: 'updateSettings', settings: { applePowerEnabled: true } })
  }
  return (
    <>
      <span className={styles['off']}>{powerWords.off}</span>
      <Button look="plain" disabled={disabled} pending={pending} onPress={turnOn}>
        {powerWords.turnOn}
      </Button>
      {shown && (
        <div className={styles['how']}>
          <p>{powerWords.takesShell}</p>
          <Command text={powerWords.commands} />
        </div>
      )}
      <Answer about={about} />
    </>
  )
}
