import { Fragment, useState } from 'react'
import type { AppBridge, PowerRuleChange } from '../../contract/app-bridge.ts'
import type { PowerRuleView } from '../../contract/power.ts'
import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { Folded } from '../components/folded.tsx'
import { Sentence } from '../components/sentence.tsx'
import { useApp, useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { powerRuleWords } from '../words/settings/power-rule.ts'
import styles from './settings-places.module.css'

/** The rule that sudo needs for powermetrics: how it stands, and all that it says, before it is installed. */
export function SettingsPower() {
  const power = useSnapshot((snapshot) => snapshot.power?.state)
  const [looks, setLooks] = useState(0)
  const look = () => setLooks((before) => before + 1)
  const { answer, problem } = useAnswer({ name: 'powerRule' }, [power, looks])
  return (
    <div className={styles['place']}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && (
        <>
          <p role="status">
            <strong>{powerRuleWords.title}</strong> {powerRuleWords.states[answer.state]}
          </p>
          {answer.message !== undefined && (
            <p className={styles['note']}>
              <Sentence text={answer.message} />
            </p>
          )}
          {answer.state !== 'notHere' && (
            <>
              <Rule rule={answer} />
              <Change state={answer.state} onChange={look} />
              <div>
                <Button look="plain" onPress={look}>
                  {powerRuleWords.lookAgain}
                </Button>
              </div>
            </>
          )}
        </>
      )}
    </div>
  )
}

function Rule({ rule: { state, file, rule } }: { readonly rule: PowerRuleView }) {
  return (
    <Folded title={state === 'installed' ? powerRuleWords.shown : powerRuleWords.show}>
      <p className={styles['note']}>{powerRuleWords.file(file)}</p>
      <Command text={rule} label={powerRuleWords.label} copyLabel={powerRuleWords.copyRule} />
    </Folded>
  )
}

interface ChangeProps extends Pick<PowerRuleView, 'state'> {
  readonly onChange: () => void
}

function Change({ state, onChange }: ChangeProps) {
  const app = useApp()
  const changes = [
    ...(state === 'installed' ? [] : ['install' as const]),
    ...(state === 'missing' ? [] : ['remove' as const]),
  ]
  if (app !== undefined) return <ChangeInApp app={app} changes={changes} onChange={onChange} />
  return changes.map((change) => (
    <Fragment key={change}>
      <p className={styles['note']}>{powerRuleWords.inTerminal[change]}</p>
      <Command text={powerRuleWords.commands[change]} copyLabel={powerRuleWords.copy[change]} />
    </Fragment>
  ))
}

interface ChangeInAppProps {
  readonly app: AppBridge
  readonly changes: readonly PowerRuleChange[]
  readonly onChange: () => void
}

/** The app shows the script first, and has Terminal run it. */
function ChangeInApp({ app, changes, onChange }: ChangeInAppProps) {
  const [pending, setPending] = useState<PowerRuleChange>()
  const [said, setSaid] = useState<string>()
  const ask = async (change: PowerRuleChange) => {
    setPending(change)
    const reply = await app.changePowerRule(change)
    setPending(undefined)
    setSaid(reply.ok ? reply.value?.message : reply.failure.message)
    onChange()
  }
  return (
    <>
      <p className={styles['note']}>{powerRuleWords.inApp}</p>
      <div className={styles['buttons']}>
        {changes.map((change) => (
          <Button
            key={change}
            disabled={pending !== undefined && pending !== change}
            pending={pending === change}
            onPress={() => void ask(change)}
          >
            {powerRuleWords.change[change]}
          </Button>
        ))}
      </div>
      {said !== undefined && <p role="status">{said}</p>}
    </>
  )
}
