import { dirname } from 'node:path'
import type { Logger } from '../observability/logger.ts'
import { pathBelow } from '../util/is-below.ts'
import type { Manifest } from './manifest.ts'
import { isInside, statIfThere } from './store-paths.ts'
import type { Recorded } from './store-records.ts'
import { shownSource } from './source.ts'

/** Which bytes, for which Model. */
export interface Wanted {
  readonly model: string
  /** The Model's; `''` = of no Model, but a person's. */
  readonly namespace: string
  /** The Model's `spec.source`. */
  readonly source: string
  /** See `selectionDigest`. */
  readonly digest: string
}

/** A service whose Model's files are, or will be, in the store. */
export interface ModelUser {
  /** As namespace/name. */
  readonly service: string
  readonly model: string
  /** See `selectionDigest`. */
  readonly digest: string
  /** The path of a source on this machine, which may lie in the store. */
  readonly path?: string
  /** Neither suspended nor scaled to zero. */
  readonly isActive: boolean
}

/** What a server of the service loaded, or is to load next: absolute paths of files and folders. */
export interface LoadedFiles {
  /** As namespace/name. */
  readonly service: string
  /** Undefined where they are not known. */
  readonly files: readonly string[] | undefined
}

/** A complete model in the store. */
export interface StoredModel {
  /** The Model's name: its folder in the store. */
  readonly model: string
  /** What a runtime is given. */
  readonly path: string
  readonly mmproj: string | undefined
  readonly sizeBytes: number
  readonly manifest: Manifest
  /** Where the manifest's files are below. */
  readonly folder: string
  readonly manifestPath: string
}

export interface StorePlace {
  readonly directory: string
  readonly log: Logger
}

/** Undefined where the files are not what the record says. */
export async function storedModel(
  { directory, log }: StorePlace,
  model: string,
  { path: record, manifest }: Recorded,
): Promise<StoredModel | undefined> {
  const folder = dirname(record)
  let sizeBytes = 0
  for (const file of manifest.files) {
    const path = pathBelow(folder, file.path)
    const size = await sizeInStore(directory, path)
    if (size === 0) return undefined
    if (size !== file.sizeBytes && manifest.origin === 'downloaded') {
      log.warn('model file has not the recorded size, fetching it again', {
        path,
        sizeBytes: size,
        recorded: file.sizeBytes,
      })
      return undefined
    }
    sizeBytes += size
  }
  return {
    model,
    path: manifest.primary === '' ? folder : pathBelow(folder, manifest.primary),
    mmproj: manifest.mmproj === undefined ? undefined : pathBelow(folder, manifest.mmproj),
    sizeBytes,
    manifest,
    folder,
    manifestPath: record,
  }
}

/** 0 where there is no such file, or it is not in the store. */
export async function sizeInStore(directory: string, path: string): Promise<number> {
  const found = await statIfThere(path)
  if (found?.isFile() !== true || !(await isInside(directory, path))) return 0
  return found.size
}

/** What a record says of any model. */
export function recordFacts(
  { source, digest }: Wanted,
  { origin, now }: { readonly origin: Manifest['origin']; readonly now: number },
) {
  return {
    schema: 2,
    source: shownSource(source),
    sourceSha256: digest,
    completedAt: new Date(now).toISOString(),
    origin,
  } as const
}
