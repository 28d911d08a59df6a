import type { ServerProcess } from './server-process.ts'
import type { Exited, ServerRole } from './server-state.ts'

/** A server of a service, in whatever role. */
export interface Slot {
  readonly process: ServerProcess
  readonly digest: string
  readonly needBytes: number | undefined
}

/** The servers of one InferenceService. */
export interface Service {
  readonly key: string
  current?: Slot | undefined
  successor?: Slot | undefined
  retiring?: Slot | undefined
  /** Since it is known. */
  starts: number
  lastFailure?: Exited | undefined
}

export const slotsOf = (service: Service | undefined): Slot[] =>
  [service?.current, service?.successor, service?.retiring].filter((slot) => slot !== undefined)

export const roleOf = ({ successor, retiring }: Service, slot: Slot): ServerRole =>
  slot === successor ? 'successor' : slot === retiring ? 'retiring' : 'current'
