import type { MemoryFiguresView, MemoryStateView } from '../contract/memory.ts'
import { heldBytesOf, type ServiceFigures, type ServiceState, type ServiceView } from '../contract/service.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'

/** One model's part of the memory, in bytes. */
export interface ModelShare {
  readonly uid: string
  readonly name: string
  readonly state: ServiceState
  /** Measured; where that is not known yet, or leaves its weights out, what it was estimated to need. Absent of a server that starts: it has only begun to take that. */
  readonly bytes: number | undefined
  readonly isMeasured: boolean
  /** What it will still take while it starts. */
  readonly promisedBytes: number
}

/** The memory of this machine, in parts that make up the whole. */
export interface MemoryShares {
  readonly totalBytes: number
  readonly models: readonly ModelShare[]
  /** Absent where the system does not say what is available. */
  readonly otherBytes: number | undefined
  /** What models could still take, without what was promised to those that start. */
  readonly freeBytes: number | undefined
}

/** Absent while the size of the memory is not known. */
export function memoryShares(
  memory: MemoryStateView | undefined,
  figures: MemoryFiguresView | undefined,
  { services, figures: byUid }: Pick<AgentSnapshot, 'services' | 'figures'>,
): MemoryShares | undefined {
  if (memory?.totalBytes === undefined) return undefined
  const { totalBytes } = memory
  const models = services.flatMap((service) => modelShare(service, byUid[service.uid]) ?? [])
  const available = figures?.availableBytes
  if (available === undefined) return { totalBytes, models, otherBytes: undefined, freeBytes: undefined }
  return {
    totalBytes,
    models,
    otherBytes: Math.max(0, totalBytes - available - sum(models.map(({ bytes }) => bytes ?? 0))),
    freeBytes: Math.max(0, available - sum(models.map(({ promisedBytes }) => promisedBytes))),
  }
}

function modelShare(
  { uid, name, state, pid, memory }: ServiceView,
  figures: ServiceFigures = {},
): ModelShare | undefined {
  const need = memory?.needBytes ?? 0
  const { footprintBytes } = figures
  const held = heldBytesOf(figures)
  if (held === undefined && pid === undefined) return undefined
  const base = { uid, name, state }
  if (state === 'starting') {
    const promisedBytes = Math.max(0, need - (footprintBytes ?? 0))
    return { ...base, bytes: footprintBytes, isMeasured: footprintBytes !== undefined, promisedBytes }
  }
  return { ...base, bytes: held ?? need, isMeasured: held !== undefined && held === footprintBytes, promisedBytes: 0 }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0)
