import { z } from 'zod'
import { progress } from './service.ts'

const timestamp = z.iso.datetime()
const bytes = z.number().nonnegative()

/** `partial`: being downloaded, or left by a download that was cut short. */
export const storedModelStates = ['complete', 'partial'] as const

export const storedModel = z.object({
  /** The Model's name; empty where a partial download does not say it. */
  name: z.string(),
  /** Without credentials and query; empty where it is not known. */
  source: z.string(),
  state: z.enum(storedModelStates),
  /** On the disk. Files that two models share count for both. */
  sizeBytes: bytes,
  files: z.int().nonnegative(),
  path: z.string(),
  /** Services of this cluster whose Model names it, as namespace/name. */
  usedBy: z.array(z.string()),
  completedAt: timestamp.optional(),
  /** When a server was last started with it. */
  lastUsedAt: timestamp.optional(),
  architecture: z.string().optional(),
  quantization: z.string().optional(),
  contextLength: z.number().optional(),
  /** Why `models prune` would delete it; absent = it would not. */
  prunable: z.string().optional(),
})
export type StoredModelView = z.infer<typeof storedModel>

/** The models in the store, and the free space of its disk. */
export const modelStoreView = z.object({
  directory: z.string(),
  /** Set while the store cannot be used: one sentence. */
  problem: z.string().optional(),
  freeBytes: bytes.optional(),
  /** Never taken by downloads. */
  reserveBytes: bytes,
  models: z.array(storedModel),
})
export type ModelStoreView = z.infer<typeof modelStoreView>

export const downloadStates = ['waiting', 'downloading', 'done', 'failed', 'cancelled'] as const

/** A download that a person asked for; those that services wait for show with the service. */
export const downloadView = z.object({
  /** The Model's name in the store. */
  name: z.string(),
  /** Without credentials and query. */
  source: z.string(),
  state: z.enum(downloadStates),
  message: z.string(),
  since: timestamp,
  progress: progress.optional(),
})
export type DownloadView = z.infer<typeof downloadView>

/** What the Hub is asked with where a Model has no Secret of its own. */
export const tokenSources = ['none', 'environment', 'file', 'keychain'] as const

/** Where the token comes from, and never the token. */
export const hubLoginView = z.object({
  tokenSource: z.enum(tokenSources),
  /** The variable or the file. */
  where: z.string().max(1_000).optional(),
  /** One sentence: a token is meant and cannot be used. */
  problem: z.string().max(1_000).optional(),
})
export type HubLoginView = z.infer<typeof hubLoginView>
