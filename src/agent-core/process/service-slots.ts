import type { ServerProcess } from './server-process.ts'
import type { Exited, ServerRole } from './server-state.ts'

/** A server of a service, in whatever role. */
export interface Slot {
  readonly process: ServerProcess
  readonly digest: string
  readonly needBytes: number | undefined
  readonly sleepsWhenIdle: boolean
  /** An earlier agent started it. */
  readonly isFound: boolean
}

/** A server that runs and has been ready, with what it takes to read its counters. */
export interface CountedServer extends Pick<Slot, 'digest' | 'sleepsWhenIdle' | 'isFound'> {
  readonly key: string
  readonly role: ServerRole
  /** Another for each start of a server. */
  readonly run: string
  readonly port: number
  /** Neither stopping nor silent. */
  readonly isWell: boolean
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

export const countedServers = (service: Service): CountedServer[] =>
  slotsOf(service).flatMap((slot) => {
    const { folder, state } = slot.process
    if (folder === undefined || (state.kind !== 'ready' && state.kind !== 'stopping')) return []
    const { port } = state
    if (port === undefined) return []
    const { digest, sleepsWhenIdle, isFound } = slot
    const isWell = state.kind === 'ready' && state.healthy
    const role = roleOf(service, slot)
    return [{ key: service.key, role, run: folder.name, port, digest, sleepsWhenIdle, isFound, isWell }]
  })

export const roleOf = ({ successor, retiring }: Service, slot: Slot): ServerRole =>
  slot === successor ? 'successor' : slot === retiring ? 'retiring' : 'current'
