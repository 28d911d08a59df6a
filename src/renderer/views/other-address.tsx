import { useState } from 'react'
import { Button } from '../components/button.tsx'
import { TextInput } from '../components/text-input.tsx'
import { useWindow } from '../store.ts'
import { placeWords } from '../words/places.ts'
import styles from './settings-places.module.css'

const isAddress = (text: string): boolean =>
  /^\d{1,3}(?:\.\d{1,3}){3}$/.test(text) && text.split('.').every((part) => Number(part) <= 255)

/** An address that is written, as one that came after the list was drawn. */
export function OtherAddress({ about }: { readonly about: string }) {
  const [text, setText] = useState('')
  /** The person is done with writing it. */
  const [isWritten, setWritten] = useState(false)
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const address = text.trim()
  const isRight = isAddress(address)
  const use = () => {
    setWritten(true)
    if (isRight && !pending && !disabled) void ask(about, { name: 'setHostAddress', address })
  }
  return (
    <form
      className={styles['written']}
      onSubmit={(event) => {
        event.preventDefault()
        use()
      }}
    >
      <TextInput
        id="hostAddress"
        label={placeWords.otherAddress}
        value={text}
        onChange={(written) => {
          setWritten(false)
          setText(written)
        }}
        onBlur={() => setWritten(true)}
        help={placeWords.otherAddressHelp}
        problem={!isWritten || address === '' || isRight ? undefined : placeWords.noAddress}
        beside={
          <Button disabled={disabled || !isRight} pending={pending} label={placeWords.useWritten} onPress={use}>
            {placeWords.use}
          </Button>
        }
      />
    </form>
  )
}
