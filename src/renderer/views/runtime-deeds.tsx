import { useEffect, useState } from 'react'
import type { RuntimeDeed } from '../../contract/commands.ts'
import type { RuntimeView, RuntimeWorkView } from '../../contract/queries.ts'
import { Banner } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { CloseGlyph } from '../components/glyph.tsx'
import { Age, Sentence } from '../components/text.tsx'
import { useQuestion } from '../focus.ts'
import { useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { deedWords } from '../words/runtime-deeds.ts'
import { Answer, AskButton } from './answer.tsx'
import styles from './runtime-deeds.module.css'

/** What a person can have done with a runtime: what it takes first, then how it goes, then what came of it. */
export function RuntimeDeeds({ runtime: { name, deeds = [] } }: { readonly runtime: RuntimeView }) {
  const trust = useTrust()
  const work = useSnapshot(({ runtimeWork }) => runtimeWork)
  const [closed, setClosed] = useState<string>()
  const own = work?.runtime === name ? work : undefined
  if (own?.state === 'running') return <Running work={own} />
  return (
    <>
      {own !== undefined && own.id !== closed && <Outcome work={own} close={() => setClosed(own.id)} />}
      {trust === 'page' && deeds.includes('install') && (
        <div className={styles['deeds']}>
          <p className={styles['note']}>{deedWords.inTerminal}</p>
          <Command text={deedWords.installLine(name)} copyLabel={deedWords.copyCommand(name)} />
        </div>
      )}
      {trust === 'shell' && <Buttons name={name} deeds={deeds} isBusy={work?.state === 'running'} />}
    </>
  )
}

interface ButtonsProps {
  readonly name: string
  readonly deeds: readonly RuntimeDeed[]
  /** Another runtime is at work. */
  readonly isBusy: boolean
}

function Buttons({ name, deeds, isBusy }: ButtonsProps) {
  const question = useQuestion()
  const dismiss = useWindow((state) => state.dismiss)
  const [chosen, setChosen] = useState<RuntimeDeed>()
  const about = aboutOf(name)
  if (question.isAsked && chosen !== undefined && !isBusy) {
    return (
      <div onKeyDown={question.onKeyDown}>
        <Question name={name} deed={chosen} close={question.close} />
      </div>
    )
  }
  if (deeds.length === 0) return null
  return (
    <div className={styles['buttons']}>
      {deeds.map((deed) => (
        <Button
          key={deed}
          disabled={isBusy}
          label={deedWords.labelOf(deed, name)}
          takesFocus={question.isOver && deed === chosen}
          onPress={() => {
            dismiss(about)
            setChosen(deed)
            question.open()
          }}
        >
          {deedWords.button[deed]}
        </Button>
      ))}
    </div>
  )
}

interface QuestionProps {
  readonly name: string
  readonly deed: RuntimeDeed
  readonly close: () => void
}

/** Shows everything that would be run. */
function Question({ name, deed, close }: QuestionProps) {
  const { answer, problem } = useAnswer({ name: 'runtimePlan', runtime: name, deed }, [])
  const about = aboutOf(name)
  return (
    <div role="group" aria-label={deedWords.labelOf(deed, name)} className={styles['deeds']}>
      {problem !== undefined && (
        <p>
          <Sentence text={problem} />
        </p>
      )}
      {answer === undefined && problem === undefined && <p className={styles['note']}>{deedWords.looking}</p>}
      {answer !== undefined && answer.commands.length > 0 && (
        <>
          <p>{deedWords.commands}</p>
          {answer.commands.map((command) => (
            <pre key={command} className={styles['output']} tabIndex={0} aria-label={deedWords.command}>
              {command}
            </pre>
          ))}
        </>
      )}
      {answer?.folder !== undefined && answer.commands.length === 0 && (
        <p>
          <Sentence text={deedWords.folder(deed, answer.folder)} />
        </p>
      )}
      <div className={styles['buttons']}>
        {answer !== undefined && (
          <AskButton about={about} command={{ name: 'changeRuntime', plan: answer.id }}>
            {deedWords.ask[deed]}
          </AskButton>
        )}
        <Button takesFocus onPress={close}>
          {deedWords.stay}
        </Button>
      </div>
      <Answer about={about} />
    </div>
  )
}

function Running({ work: { runtime, deed, lines, since } }: { readonly work: RuntimeWorkView }) {
  return (
    <div role="group" aria-label={deedWords.running(deed, runtime)} className={styles['deeds']}>
      <p>
        {deedWords.running(deed, runtime)}{' '}
        <span className={styles['note']}>
          <Age since={since} />
        </span>
      </p>
      <Output lines={lines} />
      <div className={styles['buttons']}>
        <AskButton
          about={aboutOf(runtime)}
          command={{ name: 'cancelRuntimeChange' }}
          label={deedWords.cancelOf(runtime)}
        >
          {deedWords.cancel}
        </AskButton>
      </div>
    </div>
  )
}

/** A request that began it is answered by this. */
function Outcome({ work, close }: { readonly work: RuntimeWorkView; readonly close: () => void }) {
  const { runtime, state, message = '', lines } = work
  const dismiss = useWindow((window) => window.dismiss)
  useEffect(() => dismiss(aboutOf(runtime)), [dismiss, runtime])
  return (
    <div role="status" className={styles['deeds']}>
      <Banner
        tone={state === 'failed' ? 'bad' : 'note'}
        actions={
          <Button look="plain" label={deedWords.close} onPress={close}>
            <CloseGlyph />
          </Button>
        }
      >
        <p>
          <Sentence text={message} />
        </p>
      </Banner>
      {state === 'failed' && <Output lines={lines} />}
    </div>
  )
}

const Output = ({ lines }: { readonly lines: readonly string[] }) =>
  lines.length > 0 && (
    <pre className={styles['output']} tabIndex={0} aria-label={deedWords.output}>
      {lines.join('\n')}
    </pre>
  )

const aboutOf = (name: string): string => `runtime ${name}`
