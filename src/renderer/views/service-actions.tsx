import type { ServiceView } from '../../contract/service.ts'
import { type Action, actionsFor, furtherActionsFor } from '../../contract/words.ts'
import { Button } from '../components/button.tsx'
import { type Request, useSnapshot, useWindow } from '../store.ts'
import { Answer } from './answer.tsx'
import styles from './service-actions.module.css'

/** What can be asked for this service, and below it what came of the last request. */
export function ServiceActions({ service }: { readonly service: ServiceView }) {
  const isDraining = useSnapshot(({ figures }) => figures[service.uid]?.requestsInFlight !== undefined)
  const actions = [...actionsFor(service), ...furtherActionsFor(service, { isDraining })]
  return (
    <>
      {actions.length > 0 && (
        <div className={styles['actions']}>
          {actions.map((action) => (
            <ActionButton key={action.label} about={service.uid} action={action} />
          ))}
        </div>
      )}
      <Answer about={service.uid} />
    </>
  )
}

function ActionButton({ about, action }: { readonly about: string; readonly action: Action }) {
  const ask = useWindow((state) => state.ask)
  const asked = useWindow(({ requests }) => pendingName(requests[about]))
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const pending = asked === action.command.name
  return (
    <Button
      pending={pending}
      disabled={!connected || (asked !== undefined && !pending)}
      onPress={() => void ask(about, action.command)}
    >
      {pending ? action.pending : action.label}
    </Button>
  )
}

const pendingName = (request: Request | undefined) => (request?.state === 'pending' ? request.command.name : undefined)
