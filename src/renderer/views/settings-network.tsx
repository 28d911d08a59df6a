import { useRef } from 'react'
import type { Answer as AnswerOf } from '../../contract/queries.ts'
import { Button } from '../components/button.tsx'
import { Sentence } from '../components/sentence.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { useKeptFocus } from '../use-kept-focus.ts'
import { usePressed } from '../use-pressed.ts'
import { placeWords } from '../words/places.ts'
import { Answer } from './answer.tsx'
import { OtherAddress } from './other-address.tsx'
import styles from './settings-places.module.css'

const about = 'hostAddress'

/** The address that pods are told, and those that it may be. A choice counts at once. */
export function SettingsNetwork() {
  const host = useSnapshot((snapshot) => snapshot.host)
  const state = useWindow(({ requests }) => requests[about]?.state)
  const { answer, problem } = useAnswer({ name: 'hostAddresses' }, [host, state])
  // The button of the address that is in use by now is gone.
  const outcome = useRef<HTMLDivElement>(null)
  const keepFocus = useKeptFocus(outcome)
  return (
    <div className={styles['place']} {...keepFocus}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && <Addresses answer={answer} />}
      <OtherAddress about={about} />
      <div ref={outcome} tabIndex={-1}>
        <Answer about={about} />
      </div>
    </div>
  )
}

function Addresses({ answer: { automatic, message, addresses } }: { readonly answer: AnswerOf<'hostAddresses'> }) {
  return (
    <>
      <p>
        <Sentence text={message} />
      </p>
      <ul className={styles['choices']} aria-label={placeWords.addresses}>
        <li className={styles['choice']}>
          <p className={styles['what']}>{placeWords.automatic}</p>
          {automatic ? <InUse /> : <Use address="automatic" name={placeWords.automatic} />}
        </li>
        {addresses.map(({ address, interface: name, inUse, unfit }) => (
          <li key={`${name} ${address}`} className={styles['choice']}>
            <div className={styles['what']}>
              <p>
                {address} <span className={styles['note']}>{name}</span>
              </p>
              {unfit !== undefined && <p className={styles['note']}>{unfit}</p>}
            </div>
            {inUse && !automatic ? <InUse /> : unfit === undefined && <Use address={address} name={address} />}
          </li>
        ))}
      </ul>
    </>
  )
}

const InUse = () => <span className={styles['note']}>{placeWords.inUse}</span>

function Use({ address, name }: { readonly address: string; readonly name: string }) {
  const ask = useWindow((state) => state.ask)
  const command = { name: 'setHostAddress', address } as const
  return (
    <Button {...usePressed(about, command)} label={placeWords.useOne(name)} onPress={() => void ask(about, command)}>
      {placeWords.use}
    </Button>
  )
}
