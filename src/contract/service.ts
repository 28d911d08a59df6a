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
  'Refused',
  'ModelMissing',
  'ServiceNameTaken',
  'NoHostAddress',
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
})
export type Progress = z.infer<typeof progress>

const timestamp = z.iso.datetime()

/** How the last server ended that nobody had asked to. */
export const lastFailure = z.object({
  at: timestamp,
  code: z.number().int().optional(),
  signal: z.string().optional(),
  /** What ended, why, and what to do about it. */
  message: z.string(),
  /** The first line of its output that reports trouble. */
  firstError: z.string().optional(),
  /** Of all its processes, `ageMs` before the end. */
  memory: z.object({ residentBytes: z.number().nonnegative(), ageMs: z.number().nonnegative() }).optional(),
})
export type LastFailure = z.infer<typeof lastFailure>

export const serviceView = z.object({
  namespace: z.string(),
  name: z.string(),
  uid: z.string(),
  /** Rises whenever anything in this view but `progress` changes. */
  revision: z.number().int(),
  state: serviceState,
  reason: serviceReason,
  /** One plain sentence: what is so, why, and what happens next. */
  message: z.string(),
  steps: z.object({ fetched: step, started: step, healthy: step, published: step, clusterAgrees: step }),
  since: timestamp,
  retryAt: timestamp.optional(),
  model: z.string(),
  runtime: z.string(),
  progress: progress.optional(),
  pid: z.number().int().optional(),
  port: z.number().int().optional(),
  address: z.string().optional(),
  logFile: z.string().optional(),
  restarts: z.number().int(),
  lastFailure: lastFailure.optional(),
})
export type ServiceView = z.infer<typeof serviceView>
