import { useState } from 'react'
import type { AppBridge } from '../../contract/app-bridge.ts'
import type { TraceKind, TraceList } from '../../contract/uninstall.ts'
import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { ProgressBar } from '../components/progress-bar.tsx'
import { SwitchRow } from '../components/switch-row.tsx'
import { useQuestion } from '../use-question.ts'
import { uninstallWords } from '../words/settings/uninstall.ts'
import styles from './settings-places.module.css'

interface UninstallProps {
  readonly app: AppBridge
}

/** Removes what a person leaves switched on of everything that was ever written, and ends the app. */
export function Uninstall({ app }: UninstallProps) {
  const question = useQuestion()
  const [list, setList] = useState<TraceList>()
  const [problem, setProblem] = useState<string>()
  const open = async () => {
    question.open()
    setList(undefined)
    setProblem(undefined)
    const reply = await app.traces()
    if (reply.ok) setList(reply.value)
    else setProblem(reply.failure.message)
  }
  return (
    <div role="group" aria-label={uninstallWords.title} className={styles['token']} onKeyDown={question.onKeyDown}>
      {question.isAsked ? (
        <>
          {list === undefined && problem === undefined && (
            <div role="status">
              <p>{uninstallWords.looking}</p>
              <ProgressBar label={uninstallWords.looking} percent={undefined} />
            </div>
          )}
          {list !== undefined && <Traces app={app} list={list} onProblem={setProblem} />}
          <div>
            <Button takesFocus onPress={question.close}>
              {uninstallWords.keep}
            </Button>
          </div>
        </>
      ) : (
        <>
          <div>
            <Button takesFocus={question.isOver} onPress={() => void open()}>
              {uninstallWords.open}
            </Button>
          </div>
          <p className={styles['note']}>{uninstallWords.opens}</p>
        </>
      )}
      {question.isAsked && problem !== undefined && <p role="alert">{problem}</p>}
    </div>
  )
}

interface TracesProps extends UninstallProps {
  readonly list: TraceList
  readonly onProblem: (problem: string | undefined) => void
}

function Traces({ app, list: { traces, serving }, onProblem }: TracesProps) {
  const usual = traces.filter(({ isChosen }) => isChosen).map(({ kind }) => kind)
  const [chosen, setChosen] = useState<ReadonlySet<TraceKind>>(new Set(usual))
  const [pending, setPending] = useState(false)
  const remove = async () => {
    setPending(true)
    const reply = await app.uninstall([...chosen])
    setPending(false)
    onProblem(reply.ok ? undefined : reply.failure.message)
  }
  const turn = (kind: TraceKind, isOn: boolean) =>
    setChosen((before) => new Set(isOn ? [...before, kind] : [...before].filter((one) => one !== kind)))
  if (traces.length === 0) return <p role="status">{uninstallWords.nothing}</p>
  return (
    <>
      {serving.length > 0 && <Banner tone="warn">{uninstallWords.serving(serving)}</Banner>}
      {traces.map((trace) => (
        <SwitchRow
          key={trace.kind}
          title={uninstallWords.trace(trace)}
          help={uninstallWords.places(trace)}
          isOn={chosen.has(trace.kind)}
          disabled={pending}
          onChange={(isOn) => turn(trace.kind, isOn)}
        />
      ))}
      <p className={styles['note']}>{uninstallWords.removing}</p>
      <div>
        <Button disabled={chosen.size === 0} pending={pending} onPress={() => void remove()}>
          {uninstallWords.remove}
        </Button>
      </div>
    </>
  )
}
