import { useState } from 'react'
import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { useTrust, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { powerWords } from '../words/services.ts'
import { Answer } from './answer.tsx'
import styles from './turn-on-power.module.css'

const about = 'power'

/** The one thing that a person can do while power is off, and what came of it. */
export function TurnOnPower() {
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
