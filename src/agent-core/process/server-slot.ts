import type { LedgerEntry } from './ledger.ts'
import type { ServerProcess } from './server-process.ts'
import type { ServerRole } from './server-state.ts'

/** What it is expected to hold, as estimated at its start, and whether the system may leave its weights out when it measures. */
export interface ServerNeed {
  readonly needBytes: number | undefined
  readonly isMapped: boolean
}

export const needIn = ({ needBytes, isMapped = false }: Pick<LedgerEntry, 'needBytes' | 'isMapped'>): ServerNeed => ({
  needBytes,
  isMapped,
})

/** A server of a service, in any role. */
export interface Slot {
  readonly process: ServerProcess
  readonly digest: string
  readonly need: ServerNeed
  /** Undefined where an earlier agent started it and did not note them. */
  readonly files: readonly string[] | undefined
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
  /** Of its first process, which is the number of its process group. */
  readonly pid: number
  readonly port: number
  /** Neither stopping nor silent. */
  readonly isWell: boolean
}
