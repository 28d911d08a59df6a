import type { CommandInput } from './commands.ts'
import type { ServiceState, ServiceView } from './service.ts'
import { actionWords } from './words.ts'

export interface Action {
  readonly label: string
  readonly command: CommandInput
  /** What stands there while the agent has not answered. */
  readonly pending: string
}

const running: readonly ServiceState[] = ['starting', 'ready', 'unready', 'crash-looping']

/** What can be asked for a service as it is now; the most likely one first. */
export function actionsFor({ namespace, name, state, hold, memory }: ServiceView): Action[] {
  const service = { namespace, name }
  const stop: Action = { ...actionWords.stop, command: { name: 'stop', service } }
  const start: Action = { ...actionWords.start, command: { name: 'start', service } }
  const bringBack: Action = { ...actionWords.bringBack, command: { name: 'bringBack', service } }
  const restart: Action = { ...actionWords.restart, command: { name: 'restart', service } }
  const evict: Action = { ...actionWords.evict, command: { name: 'evict', service } }
  const isProtected = memory?.isProtected === true
  const protect: Action = isProtected
    ? { ...actionWords.unprotect, command: { name: 'protect', service, protect: false } }
    : { ...actionWords.protect, command: { name: 'protect', service, protect: true } }
  const cancel: Action = {
    ...actionWords.cancelDownload,
    command: { name: 'cancelDownload', service },
  }
  if (state === 'foreign' || state === 'stopping') return []
  const isTakenBack = hold?.cause === 'evicted' || hold?.cause === 'released'
  if (state === 'stopped' || hold !== undefined) return [isTakenBack ? bringBack : start]
  if (state === 'fetching') return [cancel, stop]
  return running.includes(state) ? [stop, restart, evict, protect] : [stop]
}

/** What is asked more rarely: only where there is room for it. */
export function furtherActionsFor(
  { namespace, name, state, hold }: ServiceView,
  { isDraining }: { readonly isDraining: boolean },
): Action[] {
  const service = { namespace, name }
  const skip: Action = { ...actionWords.skipDrain, command: { name: 'skipDrain', service } }
  const release: Action = {
    ...actionWords.release,
    command: { name: 'release', service },
  }
  if (state === 'stopping') return isDraining ? [skip] : []
  return hold === undefined && running.includes(state) ? [release] : []
}
