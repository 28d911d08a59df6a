import { useEffect, useRef } from 'react'
import type { CommandInput, CommandResult } from '../../contract/commands.ts'
import { editableRow } from '../../contract/settings.ts'
import { Banner } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { CloseGlyph } from '../components/glyph.tsx'
import { Said } from '../components/text.tsx'
import { isGood, type Request, useConnected, useWindow } from '../store.ts'
import { requestWords } from '../words/window.ts'
import { answerWords } from '../words/services.ts'
import { settingWords } from '../words/settings.ts'
import { usePressed } from '../use-answer.ts'
import styles from './answer.module.css'

interface AskButtonProps extends Pick<Parameters<typeof Button>[0], 'look' | 'label'> {
  /** Key under which the request and its answer are kept. */
  readonly about: string
  readonly command: CommandInput
  readonly children: string
  /** It was answered, whatever that was. */
  readonly onAnswer?: () => void
}

/** Asks the agent for one command. */
export function AskButton({ about, command, children, onAnswer, ...looks }: AskButtonProps) {
  const ask = useWindow((state) => state.ask)
  return (
    <Button {...looks} {...usePressed(about, command)} onPress={() => void ask(about, command).then(onAnswer)}>
      {children}
    </Button>
  )
}

/** What came of the last request about one thing, where it was asked. */
export function Answer({ about }: { readonly about: string }) {
  const request = useWindow(({ requests }) => requests[about])
  const place = useRef<HTMLDivElement>(null)
  const isAnswered = request !== undefined && request.state !== 'pending'
  const wasAnswered = useRef(isAnswered)
  useEffect(() => {
    // The person may have scrolled on to another part, or pressed a button far below.
    if (isAnswered && !wasAnswered.current) {
      place.current?.scrollIntoView({ block: 'nearest' })
      // What was pressed may be gone by now.
      if (document.activeElement === document.body) place.current?.focus({ preventScroll: true })
    }
    wasAnswered.current = isAnswered
  }, [isAnswered])
  return (
    <div ref={place} role="status" tabIndex={-1} className={styles['answer']}>
      {request !== undefined && request.state !== 'pending' && <Outcome about={about} request={request} />}
    </div>
  )
}

type Answered = Exclude<Request, { state: 'pending' }>

function Outcome({ about, request }: { readonly about: string; readonly request: Answered }) {
  const ask = useWindow((state) => state.ask)
  const dismiss = useWindow((state) => state.dismiss)
  const leadTo = useWindow((state) => state.leadTo)
  const disabled = !useConnected()
  const close = (
    <Button look="plain" label={requestWords.dismiss} onPress={() => dismiss(about)}>
      <CloseGlyph />
    </Button>
  )
  if (request.state === 'unknown') {
    const { command, requestId, message, undo } = request
    const again = (
      <Button disabled={disabled} onPress={() => void ask(about, command, { requestId, undo })}>
        {requestWords.tryAgain}
      </Button>
    )
    return (
      <Banner
        tone="warn"
        actions={
          <>
            {again}
            {close}
          </>
        }
      >
        <Said text={message} />
        <p>{requestWords.unknown}</p>
      </Banner>
    )
  }
  const { command, result, undo } = request
  const setting = result.outcome === 'refused' ? result.setting : undefined
  const message = messageOf(command, result)
  const instead = insteadOf(result)
  if (instead !== undefined && asksForYes(instead.command)) {
    return (
      <div role="group" aria-label={instead.label}>
        <Banner
          tone="warn"
          actions={
            <>
              <Button disabled={disabled} onPress={() => void ask(about, instead.command)}>
                {instead.label}
              </Button>
              <Button onPress={() => dismiss(about)}>{answerWords.stay}</Button>
            </>
          }
        >
          <Said text={message} />
        </Banner>
      </div>
    )
  }
  return (
    <Banner
      tone={isGood(result) ? 'note' : 'bad'}
      actions={
        <>
          {instead !== undefined && (
            <Button disabled={disabled} onPress={() => void ask(about, instead.command)}>
              {instead.label}
            </Button>
          )}
          {setting !== undefined && (
            <Button onPress={() => leadTo(setting)}>{settingWords.show(editableRow(setting).title)}</Button>
          )}
          {isGood(result) && undo !== undefined && (
            <Button disabled={disabled} onPress={() => void ask(about, undo)}>
              {answerWords.undo}
            </Button>
          )}
          {close}
        </>
      }
    >
      {result.outcome === 'refused' && <p className={styles['who']}>{requestWords.refusedBy(result.by)}</p>}
      <Said text={message} />
      {result.outcome === 'refused' && result.yaml !== undefined && (
        <Command text={result.yaml} label={answerWords.yaml} copyLabel={answerWords.copyYaml} />
      )}
    </Banner>
  )
}

/** What is in doubt about a cluster is a question, and no error. */
const asksForYes = (command: CommandInput): boolean => 'accept' in command && (command.accept ?? []).length > 0

/** Names changed settings by their titles in the window. */
function messageOf(command: CommandInput, result: CommandResult): string {
  const changed =
    command.name === 'updateSettings' && result.outcome === 'done' && settingWords.changed(command.settings)
  return changed || result.message
}

const insteadOf = (result: CommandResult) => (result.outcome === 'refused' ? result.instead : undefined)
