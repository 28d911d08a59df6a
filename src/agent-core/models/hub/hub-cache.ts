import { realpath, stat } from 'node:fs/promises'
import { basename, isAbsolute, join } from 'node:path'
import { errorCode } from '../../util/error-code.ts'
import { entriesUpTo } from '../../util/files.ts'
import { pathBelow } from '../../util/is-below.ts'
import { hashFile } from '../download/hash.ts'
import { isSafeFileName, isSafePath } from '../source.ts'
import { hubHome } from './token.ts'

type Environment = Readonly<Record<string, string | undefined>>

export interface CachedFileQuery {
  /** `owner/name` */
  readonly repo: string
  /** In the repository. */
  readonly path: string
  /** In hex. A file is only ever taken for what it is when its content says so. */
  readonly sha256: string
  readonly sizeBytes: number
  readonly env: Environment
  readonly home: string
  readonly platform: NodeJS.Platform
  readonly signal: AbortSignal
}

/**
 * The same content in the cache of Hugging Face's tools or of llama.cpp, as the path of a regular file; undefined where
 * none has it. Reads every file of the right size whole, since a name proves nothing. Throws only the signal's reason.
 */
export async function findInHubCache(query: CachedFileQuery): Promise<string | undefined> {
  for (const path of await likelyFiles(query)) {
    query.signal.throwIfAborted()
    if ((await sizeOf(path)) !== query.sizeBytes) continue
    const digest = await sha256Of(path, query.signal)
    if (digest === query.sha256.toLowerCase()) return path
  }
  return undefined
}

/** The folder with one `models--owner--name` per repository. */
export function hubCacheFolder(env: Environment, home: string): string {
  for (const name of ['HF_HUB_CACHE', 'HUGGINGFACE_HUB_CACHE']) {
    const given = env[name] ?? ''
    if (isAbsolute(given)) return given
  }
  return join(hubHome(env, home), 'hub')
}

/** Real paths without repetition: a snapshot's link and the blob that it leads to are one file. */
async function likelyFiles({ repo, path, sha256, env, home, platform }: CachedFileQuery): Promise<ReadonlySet<string>> {
  const folder = pathBelow(hubCacheFolder(env, home), `models--${repo.replace('/', '--')}`)
  const snapshots = join(folder, 'snapshots')
  if (!isSafePath(path)) return new Set()
  const likely = [
    pathBelow(folder, `blobs/${sha256.toLowerCase()}`),
    ...(await namesIn(snapshots)).map((commit) => pathBelow(snapshots, `${commit}/${path}`)),
    ...llamaCacheFiles({ repo, path, env, home, platform }),
  ]
  const real = await Promise.all(likely.map((each) => realpath(each).catch(ifUnusable)))
  return new Set(real.filter((each) => each !== undefined))
}

/** As `common_download_file_…` of llama.cpp names what `-hf` fetched: `owner_name_file.gguf`. */
function llamaCacheFiles({
  repo,
  path,
  env,
  home,
  platform,
}: Pick<CachedFileQuery, 'repo' | 'path' | 'env' | 'home' | 'platform'>): readonly string[] {
  const name = `${repo}/${path}`.replaceAll('/', '_')
  if (!isSafeFileName(name)) return []
  const given = env['LLAMA_CACHE'] ?? ''
  const cache = env['XDG_CACHE_HOME'] ?? ''
  const standard =
    platform === 'darwin' ? join(home, 'Library', 'Caches') : isAbsolute(cache) ? cache : join(home, '.cache')
  const folder = isAbsolute(given) ? given : join(standard, 'llama.cpp')
  return [pathBelow(folder, name), pathBelow(folder, basename(path))]
}

/** A repository has one for each commit that was fetched of it. */
const maxSnapshots = 1_000

async function namesIn(folder: string): Promise<readonly string[]> {
  const entries = (await entriesUpTo(folder, maxSnapshots).catch(ifUnusable)) ?? []
  return entries.map(({ name }) => name)
}

async function sizeOf(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(ifUnusable)
  return found?.isFile() === true ? found.size : undefined
}

async function sha256Of(path: string, signal: AbortSignal): Promise<string | undefined> {
  try {
    return await hashFile(path, { signal })
  } catch (error) {
    signal.throwIfAborted()
    ifUnusable(error)
    return undefined
  }
}

/** The cache belongs to another program: a file of it that cannot be read counts as missing. */
function ifUnusable(error: unknown): undefined {
  if (errorCode(error) === undefined) throw error
  return undefined
}
