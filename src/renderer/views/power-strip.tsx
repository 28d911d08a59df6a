import { useState } from 'react'
import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { Sparkline } from '../components/sparkline.tsx'
import { trailLines, wattRange } from '../power-trail.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
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
      {shown && <How />}
      <Answer about={about} />
    </>
  )
}

/** What a page cannot do itself depends on what is set to measure, which the snapshot does not tell while power is off. */
function How() {
  const { answer, problem } = useAnswer({ name: 'settings' }, [])
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
