import { z } from 'zod'

const absolutePath = z.string().startsWith('/').max(1_000)

/** What a person may change while the agent runs; what is missing keeps its value, null goes back to the default. */
export const settingsPatch = z.strictObject({
  /** Path of the llama-server binary. */
  llamaServer: absolutePath.nullable().optional(),
  /** Kubernetes namespace that is watched; null for all. */
  namespace: z.string().min(1).max(63).nullable().optional(),
  /** Longest wait for requests in flight before a server is ended, in milliseconds. */
  drainLimitMs: z.int().min(0).max(3_600_000).nullable().optional(),
  /** Longest time a start may go without progress, in milliseconds. */
  startupStallMs: z.int().min(1_000).max(86_400_000).nullable().optional(),
  /** Bytes of one file of a server's output. */
  serverLogBytes: z.int().min(65_536).max(10_737_418_240).nullable().optional(),
  /** How many older files of it are kept. */
  serverLogFiles: z.int().min(0).max(100).nullable().optional(),
  /** Of all downloads together, in bytes per second; 0 for no limit. */
  downloadBytesPerSecond: z.int().min(0).max(1_000_000_000_000).nullable().optional(),
  /** How many models are downloaded at the same time. */
  downloadsAtOnce: z.int().min(1).max(16).nullable().optional(),
  /** Address of the Hugging Face Hub or of a mirror. */
  hubEndpoint: z
    .url({ protocol: /^https?$/ })
    .max(1_000)
    .nullable()
    .optional(),
  /** File that holds the Hub's token. */
  hubTokenFile: absolutePath.nullable().optional(),
  /** PEM file of certificate authorities that downloads trust beside the usual ones. */
  caFile: absolutePath.nullable().optional(),
  /** Bytes of the model store's volume that downloads leave free; 0 = the smaller of 2 GiB and 1 % of it. */
  diskReserveBytes: z.int().min(0).max(10_000_000_000_000).nullable().optional(),
  /** How long the rest of a download that was cut short is kept, in milliseconds. */
  partialKeepMs: z.int().min(0).max(31_536_000_000).nullable().optional(),
  /** How often the source of a Model with `refreshPolicy: OnChange` is asked, in milliseconds. */
  refreshEveryMs: z.int().min(10_000).max(604_800_000).nullable().optional(),
  /** Of all memory, for models; 0 = automatic. */
  memoryFraction: z.number().min(0).max(1).nullable().optional(),
  /** Bytes for models, instead of a fraction. */
  memoryBudgetBytes: z.int().min(1_048_576).max(100_000_000_000_000).nullable().optional(),
  /** `warn` starts what cannot be checked. */
  memoryCheckMode: z.enum(['enforce', 'warn']).nullable().optional(),
  /** Whether models are evicted when memory is critically short. */
  evictionEnabled: z.boolean().nullable().optional(),
  /** Of all memory, that our models must hold before one of them is evicted. */
  evictionShare: z.number().min(0).max(1).nullable().optional(),
  /** Whether a start of higher priority may evict servers of lower priority. */
  evictionAtAdmission: z.boolean().nullable().optional(),
  /** How long pressure must have been normal before what was evicted comes back, in milliseconds. */
  comeBackMs: z.int().min(1_000).max(86_400_000).nullable().optional(),
  logLevel: z.enum(['debug', 'info', 'warn', 'error']).nullable().optional(),
})
export type SettingsPatch = z.infer<typeof settingsPatch>
export type SettingName = keyof SettingsPatch

export const settingNames = settingsPatch.keyof().options

/** One setting as it is now. */
export const settingView = z.object({
  name: settingsPatch.keyof(),
  value: z.union([z.string(), z.number(), z.boolean(), z.null()]),
  /** Where the value comes from. A flag wins over what a person set, since it is what the service manager says at every start. */
  from: z.enum(['default', 'flag', 'person']),
  /** One sentence: what it does, its unit, and from when a change counts. */
  help: z.string(),
})
export type SettingView = z.infer<typeof settingView>
