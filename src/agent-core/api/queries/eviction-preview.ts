import { LinkError } from '../../../contract/client.ts'
import type { EvictionPreview, PreviewedService } from '../../../contract/memory.ts'
import type { Memory, MemorySettings, SizedRequest } from '../../memory/memory.ts'
import type { ServiceReport } from '../../reconcile/service-report.ts'
import { splitKey } from '../../util/object-key.ts'

export interface EvictionPreviewSources {
  readonly memory: Pick<Memory, 'fresh' | 'outlook' | 'isHeld' | 'view' | 'problem'>
  readonly reports: readonly ServiceReport[]
  /** As they would be. */
  readonly settings: MemorySettings
}

/** What the memory room itself would decide with other settings. Throws LinkError where it does not know. */
export async function evictionPreview({ memory, reports, settings }: EvictionPreviewSources): Promise<EvictionPreview> {
  await memory.fresh()
  const running = reports.filter(({ key }) => memory.isHeld(key)).flatMap((report) => requestOf(report) ?? [])
  const outlook = memory.outlook(settings, running)
  if ('message' in outlook) throw new LinkError('refused', `${outlook.message}.`)
  const { budget, committedBytes, starts, waits, evicted, unfit } = outlook
  const shown = (key: string, bytes: number, more: Partial<PreviewedService> = {}): PreviewedService => ({
    ...{ ...splitKey(key), bytes },
    ...more,
  })
  return {
    budgetBytes: budget.bytes,
    budgetHow: budget.how,
    modelsBytes: committedBytes,
    starts: starts.map(({ key, needBytes }) => shown(key, needBytes)),
    evicted: evicted.map(({ key, bytes, winner }) => shown(key, bytes, { winner })),
    unfit: unfit.map(({ key, needBytes, fitsAlone }) => shown(key, needBytes, { isTooLarge: !fitsAlone })),
    waits: waits.map(({ key, needBytes, fitsAlone }) => shown(key, needBytes, { isTooLarge: !fitsAlone })),
  }
}

/** What it would ask for if it were started again; undefined while its object is not known. */
function requestOf({
  key,
  uid,
  service,
  model,
  needBytes,
  admission,
  isProtected,
  since,
}: ServiceReport): SizedRequest | undefined {
  if (uid === undefined || service === undefined) return undefined
  const { memoryBudget: modelBudget, memoryFraction: modelFraction } = model?.spec.value.hardware ?? {}
  const need = admission.need?.estimate?.total ?? needBytes
  return {
    ...{ key, uid, needBytes: need, priority: service.spec.value.priority, isProtected, since },
    ...{ modelBudget, modelFraction },
  }
}
