import { pathBelow } from '../support/is-below.ts'
import { expectsGguf, isGguf } from './content.ts'
import { firstBytes } from './local-file.ts'
import { brokenManifestPath, manifestPath, type Manifest, type ManifestFile } from './manifest.ts'
import { parseShard, shardPaths } from './shards.ts'
import { shownSource } from './source.ts'
import type { StoreClaims } from './store-claims.ts'
import { lstatIfThere } from './store-paths.ts'
import { isNamedBy, type StoreRecords } from './store-records.ts'
import {
  recordFacts,
  sizeInStore,
  storedModel,
  type StorePlace,
  type StoredModel,
  type Wanted,
} from './stored-model.ts'

interface Adopting extends StorePlace {
  readonly records: StoreRecords
  readonly claims: StoreClaims
  readonly now: number
}

/**
 * Takes a file without a record for this source where it has the name that the Go agent's store gives it. It belongs to no namespace yet.
 * Undefined where there is no such file, or another request has it.
 */
export async function adopt(
  store: Adopting,
  { folder, goName }: { readonly folder: string; readonly goName: string },
  wanted: Wanted,
): Promise<StoredModel | undefined> {
  const { log, records, claims, now } = store
  const shard = parseShard(goName)
  const names = shard === undefined ? [goName] : shardPaths(goName, shard)
  const path = pathBelow(folder, goName)
  if (!claims.take(path, wanted.digest)) return undefined
  let keepsClaim = false
  try {
    const files: ManifestFile[] = []
    for (const name of names) {
      const sizeBytes = await unrecorded(store, folder, name)
      if (sizeBytes === 0) return undefined
      files.push({ path: name, sizeBytes })
    }
    if (expectsGguf(path) && !isGguf(await firstBytes(path))) {
      log.warn('file in the model store is not the model its name promises', { path })
      return undefined
    }
    const record = manifestPath(path)
    const manifest: Manifest = { ...recordFacts(wanted, { origin: 'adopted', now }), files, primary: goName }
    const outcome = await records.add(record, manifest).then(
      (isAdded) => (isAdded ? 'recorded' : 'taken'),
      (error: unknown) => {
        log.debug('model found in the store cannot be recorded', { path: record, error })
        return 'unrecorded' as const
      },
    )
    if (outcome === 'taken') return undefined
    // The claim in memory then keeps other sources away from the file.
    keepsClaim = outcome === 'unrecorded'
    const stored = await storedModel(store, wanted.model, { path: record, manifest })
    log.info('using model found in the store', {
      path,
      source: shownSource(wanted.source),
      sizeBytes: stored?.sizeBytes,
    })
    return stored
  } finally {
    if (!keepsClaim) claims.release(path, wanted.digest)
  }
}

/** Length of a file of the store that no record names and nothing speaks against; 0 where there is none. */
async function unrecorded({ directory, records }: Adopting, folder: string, name: string): Promise<number> {
  const path = pathBelow(folder, name)
  if ((await records.in(folder)).some((record) => isNamedBy(record, path))) return 0
  if ((await lstatIfThere(brokenManifestPath(manifestPath(path)))) !== undefined) return 0
  return sizeInStore(directory, path)
}
