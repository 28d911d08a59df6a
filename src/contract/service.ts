import { z } from 'zod'

/** What this Mac does with one InferenceService. */
export const serviceStates = [
  'waiting',
  'fetching',
  'starting',
  'ready',
  'unready',
  'crash-looping',
  'stopping',
  'stopped',
  'refused',
  'foreign',
] as const
export const serviceState = z.enum(serviceStates)
export type ServiceState = z.infer<typeof serviceState>

/** Also the reasons of the condition `MetalAgent` on the InferenceService, so that every surface says the same. */
export const serviceReasons = [
  'Pending',
  'Fetching',
  'FetchFailed',
  'Starting',
  'Serving',
  'StartFailed',
  'CrashLooping',
  'Stopping',
  'Stopped',
  'Suspended',
  'Idle',
  'InsufficientMemory',
  'MemoryCheckFailed',
  'MemoryPressure',
  'StartsInTurn',
  'Held',
  'Paused',
  'Asleep',
  'Refused',
  'ExtraArgsRejected',
  'EnvironmentRejected',
  'ModelMissing',
  'ServiceNameTaken',
  'ServiceNameTooLong',
  'NoHostAddress',
  'NoGateway',
  'NoApiKey',
  'ClaimedElsewhere',
  'ClaimOverwritten',
  'ClusterDisagrees',
] as const
export const serviceReason = z.enum(serviceReasons)
export type ServiceReason = z.infer<typeof serviceReason>

export const stepNames = ['fetched', 'started', 'healthy', 'published', 'clusterAgrees'] as const
export type StepName = (typeof stepNames)[number]

export const step = z.object({
  status: z.enum(['done', 'active', 'waiting', 'failed']),
  message: z.string().optional(),
})
export type Step = z.infer<typeof step>

export const progress = z.object({
  doneBytes: z.number().nonnegative(),
  /** Absent where the source does not say how long it is. */
  totalBytes: z.number().nonnegative().optional(),
  bytesPerSecond: z.number().nonnegative(),
  /** Absent while bytes arrive. `verifying`: the bytes are those read again to compute their checksum. */
  phase: z.enum(['verifying', 'waiting']).optional(),
  /** Why it waits, or what happened on the way. */
  message: z.string().optional(),
})
export type Progress = z.infer<typeof progress>
type Sizes = Pick<Progress, 'doneBytes' | 'totalBytes'>

/** In whole percent, of at most 100; undefined where the source does not say how long the file is. */
export const percentOf = ({ doneBytes, totalBytes = 0 }: Sizes): number | undefined =>
  totalBytes === 0 ? undefined : Math.min(100, Math.floor((100 * doneBytes) / totalBytes))

/** In milliseconds at the present rate; undefined where nothing arrives, or nothing is known to be missing. */
export const timeLeftOf = ({ doneBytes, totalBytes = 0, bytesPerSecond }: Progress): number | undefined =>
  bytesPerSecond > 0 && totalBytes > doneBytes ? (1_000 * (totalBytes - doneBytes)) / bytesPerSecond : undefined

const timestamp = z.iso.datetime()

export const holdCauses = ['stopped', 'evicted', 'downloadCancelled'] as const

export type HoldCause = (typeof holdCauses)[number]

export const hold = z.object({
  cause: z.enum(holdCauses),
  since: timestamp,
  message: z.string(),
  /** Absent = a person. What memory pressure evicted comes back by itself. */
  by: z.enum(['person', 'pressure']).optional(),
})
export type Hold = z.infer<typeof hold>

export const crash = z.object({
  at: timestamp,
  /** Failures in a row; 0 = it serves again. */
  failures: z.number().int().nonnegative(),
  /** What ended, why, what that most likely means and what to do about it. */
  message: z.string(),
  /** The part of the message that says what it most likely means and what to do about it; absent if no known cause fits. */
  guess: z.string().optional(),
  exitCode: z.number().int().optional(),
  signal: z.string().optional(),
  /** The first line of its output that reports trouble. */
  firstError: z.string().optional(),
  /** Memory of all its processes, measured `ageMs` before the end. */
  memory: z.object({ residentBytes: z.number().nonnegative(), ageMs: z.number().nonnegative() }).optional(),
})
export type CrashView = z.infer<typeof crash>

/** What the runtime says of its own work, read only while somebody looks. A figure that is not known is absent, never 0. */
export const runtimeFigures = z.object({
  /** `notReported`: the runtime tells nothing, or may not be asked; there is no figure then. */
  state: z.enum(['reported', 'notReported']),
  /** Why nothing is reported: one sentence. */
  message: z.string().optional(),
  /** Tokens per second at which prompts were read, of the work counted last; absent where there was none lately. */
  promptTokensPerSecond: z.number().nonnegative().optional(),
  /** Tokens per second of one request; several at once each have this rate. Absent where nothing was generated lately. */
  generatedTokensPerSecond: z.number().nonnegative().optional(),
  requestsRunning: z.number().int().nonnegative().optional(),
  /** Requests that wait for a free slot. */
  requestsWaiting: z.number().int().nonnegative().optional(),
  /** Used part of the KV cache, from 0 to 1. */
  kvUse: z.number().min(0).max(1).optional(),
  /** When its counters last moved, as far as they were looked at. */
  lastRequestAt: timestamp.optional(),
  /** Set while it is slower than the same server was before: one sentence. */
  slow: z.string().optional(),
})
export type RuntimeFigures = z.infer<typeof runtimeFigures>

/** What changes all the time, and is no reason to look at the service again. */
export const serviceFigures = z.object({
  progress: progress.optional(),
  /** Set while it drains. */
  requestsInFlight: z.number().int().nonnegative().optional(),
  /** What its processes really cost, as last measured. */
  footprintBytes: z.number().nonnegative().optional(),
  /** What counts as its share of the memory, where that is more than what was measured: see `heldBytesOf`. */
  heldBytes: z.number().nonnegative().optional(),
  /** Absent while no server of it was asked. */
  runtime: runtimeFigures.optional(),
  /** Requests in flight through the gateway, by the address of their client; absent where there is none. */
  gateway: z
    .array(z.object({ door: z.enum(['clientProxy', 'published']), address: z.string(), requests: z.int().positive() }))
    .optional(),
  /** An estimate of the part of the machine's power that it draws; absent while that is not known. */
  powerShareWatts: z.number().nonnegative().optional(),
})
export type ServiceFigures = z.infer<typeof serviceFigures>

/** Its share of the memory. macOS does not measure a model that is mapped from its file: there its estimate counts where that is more. */
export const heldBytesOf = ({ heldBytes, footprintBytes }: ServiceFigures): number | undefined =>
  heldBytes ?? footprintBytes

const bytes = z.number().nonnegative()

/** Something that would make it fit, true by the arithmetic of admission when it was said. `both` has what each alone would have. */
export const wayToFit = z.object({
  kind: z.enum(['change', 'evict', 'quit', 'budget', 'both']),
  sentence: z.string(),
  /** For `evict`: services as namespace/name. */
  evict: z.array(z.string()).optional(),
  /** For `change`: what of the InferenceService to set; `contextSize` alone is what `setContextSize` does. */
  change: z
    .object({
      contextSize: z.int().positive().optional(),
      cacheType: z.string().optional(),
      parallelSlots: z.int().positive().optional(),
    })
    .optional(),
  /** For `quit`: names of other applications. */
  quit: z.array(z.string()).optional(),
  /** For `budget`. */
  budget: z
    .object({
      /** `machine`: the setting `memoryBudgetBytes` here. `model`: `spec.hardware.memoryBudget` of the Model. */
      of: z.enum(['machine', 'model']),
      bytes,
      /** What a person runs first, where the GPU may not hold so much. */
      command: z.string().optional(),
    })
    .optional(),
})
export type WayToFitView = z.infer<typeof wayToFit>

/** What a server holds, by what holds it. */
export const memoryItems = z.object({
  weights: bytes,
  kv: bytes,
  compute: bytes,
  promptCache: bytes,
  mmproj: bytes,
  /** A draft model with all it needs. */
  draft: bytes.optional(),
  /** Adapters and control vectors. */
  adapters: bytes.optional(),
  overhead: bytes,
})

export const priorities = ['critical', 'high', 'normal', 'low', 'batch'] as const

/** What its server needs, and what stands in the way. */
export const serviceMemory = z.object({
  /** Estimate for the server that runs or is to run; absent if there is none. */
  needBytes: bytes.optional(),
  items: memoryItems.optional(),
  /** Set where something had to be assumed: one sentence. */
  guess: z.string().optional(),
  /** What a person should know about the numbers. */
  notes: z.array(z.string()).optional(),
  priority: z.enum(priorities),
  /** Never evicted: by its specification, or by a person on this machine. */
  isProtected: z.boolean(),
  /** 1 = the next to start; absent where it does not wait for memory, or would not fit even alone. */
  place: z.int().positive().optional(),
  /** Why it may not have its memory, in a few words with the figures that its message has; absent where it may. */
  shortage: z.string().optional(),
  /** The mildest first. */
  waysToFit: z.array(wayToFit).optional(),
})
export type ServiceMemory = z.infer<typeof serviceMemory>

export const serviceView = z.object({
  namespace: z.string(),
  name: z.string(),
  uid: z.string(),
  /** Rises whenever anything in this view changes. */
  revision: z.number().int(),
  state: serviceState,
  reason: serviceReason,
  /** One plain sentence: the present state, its cause, and what happens next. */
  message: z.string(),
  steps: z.object({ fetched: step, started: step, healthy: step, published: step, clusterAgrees: step }),
  since: timestamp,
  /** When what does not serve is tried again. */
  retryAt: timestamp.optional(),
  model: z.string(),
  /** What it drafts with: the name of another Model, or of a file of its own. */
  draft: z.string().optional(),
  /** Tokens, as its InferenceService says; absent = the default. */
  contextSize: z.int().positive().optional(),
  /** Of the server that runs or is to run; absent while nothing has decided for one. */
  runtime: z.string().optional(),
  /** What decided for it, such as "spec.runtime". */
  runtimeFrom: z.string().optional(),
  pid: z.number().int().optional(),
  port: z.number().int().optional(),
  address: z.string().optional(),
  logFile: z.string().optional(),
  restarts: z.number().int(),
  /** As pods reach it; absent where there is no Service. */
  url: z.string().optional(),
  /** Set while this machine holds it back although the cluster wants it. */
  hold: hold.optional(),
  /** The latest end of a server that was not stopped on purpose. */
  crash: crash.optional(),
  memory: serviceMemory.optional(),
})
export type ServiceView = z.infer<typeof serviceView>
