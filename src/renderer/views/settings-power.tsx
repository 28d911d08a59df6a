import { useState } from 'react'
import type { PowerRuleView } from '../../contract/power-rule.ts'
import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { useSnapshot } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { powerRuleWords } from '../words/settings/power-rule.ts'
import styles from './settings-places.module.css'

/** The rule that sudo needs for powermetrics: how it stands, and all that it says, before it is installed. */
export function SettingsPower() {
  const power = useSnapshot((snapshot) => snapshot.power?.state)
  const [looks, setLooks] = useState(0)
  const { answer, problem } = useAnswer({ name: 'powerRule' }, [power, looks])
  return (
    <div className={styles['place']}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && (
        <>
          <p role="status">
            <strong>{powerRuleWords.title}</strong> {powerRuleWords.states[answer.state]}
          </p>
          {answer.message !== undefined && <p className={styles['note']}>{answer.message}</p>}
          {answer.state !== 'notHere' && (
            <>
              <Rule rule={answer} />
              <Change state={answer.state} />
              <div>
                <Button look="plain" onPress={() => setLooks(looks + 1)}>
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
    <details className={styles['more']}>
      <summary>{state === 'installed' ? powerRuleWords.shown : powerRuleWords.show}</summary>
      <p className={styles['note']}>{powerRuleWords.file(file)}</p>
      <Command text={rule} label={powerRuleWords.label} copyLabel={powerRuleWords.copyRule} />
    </details>
  )
}

function Change({ state }: Pick<PowerRuleView, 'state'>) {
  return (
    <>
      {state !== 'installed' && (
        <>
          <p className={styles['note']}>{powerRuleWords.install}</p>
          <Command text={powerRuleWords.installCommand} copyLabel={powerRuleWords.copyInstall} />
        </>
      )}
      {state !== 'missing' && (
        <>
          <p className={styles['note']}>{powerRuleWords.remove}</p>
          <Command text={powerRuleWords.removeCommand} copyLabel={powerRuleWords.copyRemove} />
        </>
      )}
    </>
  )
}
