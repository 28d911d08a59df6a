import { z } from 'zod'
import { serviceRef } from './commands.ts'
import { settingsPatch } from './settings.ts'

const bytes = z.number().nonnegative()

/** What settings about memory would do to the services, before they are set. */
export const evictionPreviewQuery = z.object({
  name: z.literal('evictionPreview'),
  /** As of `updateSettings`: what is absent stays as it is. */
  settings: settingsPatch.pick({
    memoryFraction: true,
    memoryBudgetBytes: true,
    memoryCheckMode: true,
    evictionAtAdmission: true,
  }),
})

export const previewedService = z.object({
  ...serviceRef.shape,
  /** What it is expected to need, or what its servers hold where that is more. */
  bytes,
  /** Of a service that would be evicted: for which, as namespace/name. */
  winner: z.string().optional(),
  /** It needs more than the whole budget. */
  isTooLarge: z.boolean().optional(),
})
export type PreviewedService = z.infer<typeof previewedService>

const services = z.array(previewedService)

export const evictionPreviewView = z.object({
  budgetBytes: bytes,
  /** One sentence: where the budget comes from, and what keeps it from being larger. */
  budgetHow: z.string(),
  /** What running and starting servers hold of it. */
  modelsBytes: bytes,
  /** They wait for memory now, and would get it. */
  starts: services,
  /** They would have to give way at once. */
  evicted: services,
  /** They would keep running, since no budget ends a server, and not start again while the others run. */
  unfit: services,
  /** They would go on waiting, or wait from now on. */
  waits: services,
})
export type EvictionPreview = z.infer<typeof evictionPreviewView>
