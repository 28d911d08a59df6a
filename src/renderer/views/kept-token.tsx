import { useState } from 'react'
import type { AppBridge } from '../../contract/app-bridge.ts'
import { Button } from '../components/button.tsx'
import { TextInput } from '../components/text-input.tsx'
import { useAppState } from '../use-app-state.ts'
import { appWords } from '../words/settings/app.ts'
import styles from './settings-places.module.css'

interface KeptTokenProps {
  readonly app: AppBridge
  /** It is kept, or not any more. */
  readonly onChange: () => void
}

/** The token that the app keeps for its agent: it can be written and removed here, and never be read. */
export function KeptToken({ app, onChange }: KeptTokenProps) {
  const { state, problem, take } = useAppState(app)
  const [text, setText] = useState('')
  const [isPending, setPending] = useState(false)
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
    <>
      <p className={styles['note']}>{isHere ? appWords.tokenStates[hubToken] : appWords.tokenElsewhere}</p>
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
        <div>
          <Button look="plain" pending={isPending} onPress={() => void change(app.removeHubToken())}>
            {appWords.removeToken}
          </Button>
        </div>
      )}
    </>
  )
}
