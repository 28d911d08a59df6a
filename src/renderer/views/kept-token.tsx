import { useEffect, useRef, useState } from 'react'
import type { AppBridge } from '../../contract/app-bridge.ts'
import type { Answer } from '../../contract/queries.ts'
import { Button } from '../components/button.tsx'
import { TextInput } from '../components/text-input.tsx'
import { useAppState } from '../use-app-state.ts'
import { useKeptFocus } from '../use-kept-focus.ts'
import { useQuestion } from '../use-question.ts'
import { appWords } from '../words/settings/app.ts'
import styles from './settings-places.module.css'

interface KeptTokenProps {
  readonly app: AppBridge
  /** What the agent said last: asking it, it may have found that the keychain does not give the token back. */
  readonly login: Answer<'hubLogin'> | undefined
  /** It is kept, or not any more. */
  readonly onChange: () => void
}

/** The token that the app keeps for its agent: it can be written and removed here, and never be read. */
export function KeptToken({ app, login, onChange }: KeptTokenProps) {
  const { state, problem, take } = useAppState(app)
  const [text, setText] = useState('')
  const [isPending, setPending] = useState(false)
  const question = useQuestion()
  // The button that removes it is gone with it.
  const home = useRef<HTMLParagraphElement>(null)
  const keepFocus = useKeptFocus(home)
  useEffect(() => {
    if (login !== undefined) void take(app.appState())
  }, [app, login, take])
  if (state === undefined) return problem === undefined ? null : <p>{problem}</p>
  const { hubToken, isHere } = state
  const token = text.trim()
  const change = async (asked: ReturnType<AppBridge['setHubToken']>) => {
    setPending(true)
    if (await take(asked)) {
      setText('')
      onChange()
    }
    setPending(false)
  }
  const keep = () => {
    if (token !== '' && !isPending) void change(app.setHubToken(token))
  }
  return (
    <div className={styles['token']} {...keepFocus}>
      <p className={styles['note']} ref={home} tabIndex={-1}>
        {isHere ? appWords.tokenStates[hubToken] : appWords.tokenElsewhere}
      </p>
      {problem !== undefined && <p role="alert">{problem}</p>}
      {isHere && hubToken !== 'unavailable' && (
        <form
          className={styles['written']}
          onSubmit={(event) => {
            event.preventDefault()
            keep()
          }}
        >
          <TextInput
            isSecret
            label={appWords.token}
            value={text}
            onChange={setText}
            help={appWords.tokenHelp}
            beside={
              <Button disabled={token === ''} pending={isPending} label={appWords.keepTokenLabel} onPress={keep}>
                {appWords.keepToken}
              </Button>
            }
          />
        </form>
      )}
      {isHere && (hubToken === 'kept' || hubToken === 'unreadable') && (
        <div className={styles['buttons']} onKeyDown={question.onKeyDown}>
          {question.isAsked ? (
            <>
              <span>{appWords.removeTokenSure}</span>
              <Button
                pending={isPending}
                onPress={() => {
                  question.close()
                  void change(app.removeHubToken())
                }}
              >
                {appWords.removeTokenNow}
              </Button>
              <Button takesFocus onPress={question.close}>
                {appWords.keepTokenHere}
              </Button>
            </>
          ) : (
            <Button look="plain" pending={isPending} takesFocus={question.isOver} onPress={question.open}>
              {appWords.removeToken}
            </Button>
          )}
        </div>
      )}
    </div>
  )
}
