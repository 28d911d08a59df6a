import type { ReactNode } from 'react'
import type { CommandInput } from '../../contract/commands.ts'
import type { ServiceView, WayToFitView } from '../../contract/service.ts'
import { Card } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { Said, Sentence } from '../components/text.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { useAnswer, usePressed } from '../use-answer.ts'
import { fitWords } from '../words/models.ts'
import { Answer } from './answer.tsx'
import styles from './ways.module.css'

/** What stands in the way of a model that does not fit, what would make it fit, and what came of it. */
export function WaysToFit({ service }: { readonly service: ServiceView }) {
  return (
    <>
      <Answer about={aboutFit(service)} />
      <Misfit service={service} />
    </>
  )
}

/** The answer stays where the request was made, even if the model fits by then. */
const aboutFit = ({ uid }: ServiceView) => `fit/${uid}`

function Misfit({ service: view }: { readonly service: ServiceView }) {
  const ask = useWindow((store) => store.ask)
  const { namespace, name, contextSize, memory } = view
  const ways = memory?.waysToFit
  if (memory === undefined || ways === undefined || ways.length === 0) return null
  const about = aboutFit(view)
  const service = { namespace, name }
  const commandOf = (tokens: number) => ({ name: 'setContextSize', service, contextSize: tokens }) as const
  const setContext = (tokens: number) => {
    const undo = { name: 'setContextSize', service, contextSize: contextSize ?? null } as const
    void ask(about, commandOf(tokens), { undo })
  }
  return (
    <Card title={fitWords.title}>
      <Ways about={about} ways={ways} context={{ effect: fitWords.contextEffect, onUse: setContext, commandOf }} />
      {memory.place !== undefined && <Said look="quiet" text={fitWords.place(memory.place)} />}
    </Card>
  )
}

interface WaysProps {
  /** Key under which requests and their answers are kept. */
  readonly about: string
  readonly ways: readonly WayToFitView[]
  /** What a smaller context is done by. */
  readonly context: {
    readonly effect: string
    readonly onUse: (tokens: number) => void
    /** What `onUse` asks the agent for, where it does. */
    readonly commandOf?: (tokens: number) => CommandInput
  }
}

/** What would make a model fit: with a button and its effect where it is ours to do; the rest is for the person's other tools. */
export function Ways({ about, ways, context }: WaysProps) {
  return (
    <ul className={styles['ways']} aria-label={fitWords.ways}>
      {ways.map(({ sentence, change, evict, budget }) => (
        <li key={sentence} className={styles['way']}>
          <span className={styles['sentence']}>
            <Sentence text={`${sentence}.`} />
          </span>
          {change?.contextSize !== undefined && Object.keys(change).length === 1 && (
            <UseContext about={about} tokens={change.contextSize} {...context} />
          )}
          {evict?.map((key) => (
            <Evict key={key} about={about} service={key} />
          ))}
          {budget?.of === 'machine' && <Raise about={about} bytes={budget.bytes} first={budget.command} />}
        </li>
      ))}
    </ul>
  )
}

interface WayActionProps {
  readonly about: string
  readonly effect: string
  readonly label: string
  /** What a press asks the agent for. */
  readonly command: CommandInput | undefined
  readonly disabled?: boolean
  readonly onPress: () => void
  readonly children?: ReactNode
}

function WayAction({ about, effect, label, command, disabled = false, onPress, children }: WayActionProps) {
  const pressed = usePressed(about, command)
  return (
    <div className={styles['action']}>
      {children}
      <span className={styles['effect']}>{effect}</span>
      <Button pending={pressed.pending} disabled={disabled || pressed.disabled} onPress={onPress}>
        {label}
      </Button>
    </div>
  )
}

type UseContextProps = WaysProps['context'] & { readonly about: string; readonly tokens: number }

function UseContext({ about, tokens, effect, onUse, commandOf }: UseContextProps) {
  return (
    <WayAction
      about={about}
      effect={effect}
      label={fitWords.context(tokens)}
      command={commandOf?.(tokens)}
      onPress={() => onUse(tokens)}
    />
  )
}

/** `service` as namespace/name. */
function Evict({ about, service: key }: { readonly about: string; readonly service: string }) {
  const ask = useWindow((state) => state.ask)
  const [namespace = '', name = ''] = key.split('/')
  const service = { namespace, name }
  const command = { name: 'evict', service } as const
  return (
    <WayAction
      about={about}
      effect={fitWords.evictEffect(name)}
      label={fitWords.evict(name)}
      command={command}
      onPress={() => void ask(about, command, { undo: { name: 'bringBack', service } })}
    />
  )
}

interface RaiseProps {
  readonly about: string
  readonly bytes: number
  /** Needed first, where the GPU may not hold so much. */
  readonly first: string | undefined
}

function Raise({ about, bytes, first }: RaiseProps) {
  const memory = useSnapshot((snapshot) => snapshot.memory)
  const ask = useWindow((state) => state.ask)
  const { answer, problem } = useAnswer({ name: 'settings' }, [memory?.budgetBytes])
  const before = answer?.settings.find(({ name }) => name === 'memoryBudgetBytes')
  if (before?.from === 'flag') return <span className={styles['effect']}>{fitWords.byFlag}</span>
  const command = { name: 'updateSettings', settings: { memoryBudgetBytes: bytes } } as const
  const undone = before?.from === 'person' && typeof before.value === 'number' ? before.value : null
  return (
    <WayAction
      about={about}
      effect={problem ?? fitWords.raiseEffect(memory)}
      label={fitWords.raise(bytes)}
      command={command}
      disabled={before === undefined}
      onPress={() =>
        void ask(about, command, { undo: { name: 'updateSettings', settings: { memoryBudgetBytes: undone } } })
      }
    >
      {first !== undefined && (
        <div className={styles['first']}>
          <p>{fitWords.raiseFirst}</p>
          <Command text={first} />
        </div>
      )}
    </WayAction>
  )
}
