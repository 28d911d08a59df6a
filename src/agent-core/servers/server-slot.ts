import type { LedgerEntry } from './ledger.ts'
import type { ServerProcess } from './server-process.ts'
import type { ServerRole } from './server-state.ts'

/** What it is expected to hold, as estimated at its start, and what of that is mapped from files: some systems do not measure it. */
export interface ServerNeed {
  readonly needBytes: number | undefined
  readonly mappedBytes: number
}

/** The ledger of an earlier version has the whole need of a mapped server alone: then all of it counts as mapped. */
export const needIn = ({
  needBytes,
  mappedBytes,
  isMapped = false,
}: Pick<LedgerEntry, 'needBytes' | 'mappedBytes' | 'isMapped'>): ServerNeed => ({
  needBytes,
  mappedBytes: mappedBytes ?? (isMapped ? (needBytes ?? 0) : 0),
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
