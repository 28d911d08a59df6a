import type { ReactNode } from 'react'
import type { WayToFitView } from '../../contract/service.ts'
import { Button } from '../components/button.tsx'
import { Command } from '../components/command.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { fitWords } from '../words/fit.ts'
import styles from './ways.module.css'

interface WaysProps {
  /** Under which the answers are told. */
  readonly about: string
  readonly ways: readonly WayToFitView[]
  /** What a smaller context is done by. */
  readonly context: { readonly effect: string; readonly onUse: (tokens: number) => void }
}

/** What would make a model fit: with a button and its effect where it is ours to do; the rest is for the person's other tools. */
export function Ways({ about, ways, context }: WaysProps) {
  return (
    <ul className={styles['ways']} aria-label={fitWords.ways}>
      {ways.map(({ sentence, change, evict, budget }) => (
        <li key={sentence} className={styles['way']}>
          <span className={styles['sentence']}>{sentence}.</span>
          {change?.contextSize !== undefined && Object.keys(change).length === 1 && (
            <UseContext about={about} tokens={change.contextSize} {...context} />
          )}
          {evict?.map((key) => (
            <Evict key={key} about={about} service={key} />
          ))}
          {budget?.of === 'machine' && <Raise about={about} bytes={budget.bytes} command={budget.command} />}
        </li>
      ))}
    </ul>
  )
}

interface WayActionProps {
  readonly about: string
  readonly effect: string
  readonly label: string
  readonly disabled?: boolean
  readonly onPress: () => void
  readonly children?: ReactNode
}

function WayAction({ about, effect, label, disabled = false, onPress, children }: WayActionProps) {
  const isIdle = useWindow(
    ({ connection, requests }) => connection.state === 'live' && requests[about]?.state !== 'pending',
  )
  return (
    <div className={styles['action']}>
      {children}
      <span className={styles['effect']}>{effect}</span>
      <Button disabled={disabled || !isIdle} onPress={onPress}>
        {label}
      </Button>
    </div>
  )
}

interface UseContextProps {
  readonly about: string
  readonly tokens: number
  readonly effect: string
  readonly onUse: (tokens: number) => void
}

function UseContext({ about, tokens, effect, onUse }: UseContextProps) {
  return <WayAction about={about} effect={effect} label={fitWords.context(tokens)} onPress={() => onUse(tokens)} />
}

/** `service` as namespace/name. */
function Evict({ about, service: key }: { readonly about: string; readonly service: string }) {
  const ask = useWindow((state) => state.ask)
  const [namespace = '', name = ''] = key.split('/')
  const service = { namespace, name }
  return (
    <WayAction
      about={about}
      effect={fitWords.evictEffect(name)}
      label={fitWords.evict(name)}
      onPress={() => void ask(about, { name: 'evict', service }, { undo: { name: 'bringBack', service } })}
    />
  )
}

interface RaiseProps {
  readonly about: string
  readonly bytes: number
  /** Needed first, where the GPU may not hold so much. */
  readonly command: string | undefined
}

function Raise({ about, bytes, command }: RaiseProps) {
  const memory = useSnapshot((snapshot) => snapshot.memory)
  const ask = useWindow((state) => state.ask)
  const { answer, problem } = useAnswer({ name: 'settings' }, [memory?.budgetBytes])
  const before = answer?.settings.find(({ name }) => name === 'memoryBudgetBytes')
  if (before?.from === 'flag') return <span className={styles['effect']}>{fitWords.byFlag}</span>
  const undone = before?.from === 'person' && typeof before.value === 'number' ? before.value : null
  return (
    <WayAction
      about={about}
      effect={problem ?? fitWords.raiseEffect(memory)}
      label={fitWords.raise(bytes)}
      disabled={before === undefined}
      onPress={() =>
        void ask(
          about,
          { name: 'updateSettings', settings: { memoryBudgetBytes: bytes } },
          { undo: { name: 'updateSettings', settings: { memoryBudgetBytes: undone } } },
        )
      }
    >
      {command !== undefined && (
        <div className={styles['first']}>
          <p>{fitWords.raiseFirst}</p>
          <Command text={command} />
        </div>
      )}
    </WayAction>
  )
}
