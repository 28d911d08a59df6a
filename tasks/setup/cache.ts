import { createHash, randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'

/** How soon a run that waits for another run's build looks again; builds take minutes. */
const lockPollMs = 500

/** No build takes longer: ten minutes on two cores, six times that on a busy machine. */
const longestBuildMs = 60 * 60_000

export function cacheFolder(): string {
  const base = process.env['XDG_CACHE_HOME']
  return join(base === undefined || base === '' ? join(homedir(), '.cache') : base, 'metalbar')
}

/** Where a part lies once it is built: another version, or another of the inputs that decide how, is another folder. */
export function partFolder(name: string, version: string, inputs: readonly string[]): string {
  const hash = createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 12)
  return join(cacheFolder(), `${name}-${version}-${process.platform}-${process.arch}-${hash}`)
}

/**
 * Makes `folder` by letting `build` fill a folder beside it, which then gets the name: a half-built part is never used.
 * When another run builds the same part, that one is waited for.
 */
export async function buildOnce(folder: string, build: (workFolder: string) => Promise<void>): Promise<void> {
  await mkdir(cacheFolder(), { recursive: true })
  await using held = new AsyncDisposableStack()
  held.use(await lock(`${folder}.lock`))
  if (existsSync(folder)) return
  const workFolder = `${folder}.${randomUUID().slice(0, 8)}.partial`
  await mkdir(workFolder)
  try {
    await build(workFolder)
    await rename(workFolder, folder)
  } finally {
    await rm(workFolder, { recursive: true, force: true })
  }
}

async function lock(file: string): Promise<AsyncDisposable> {
  for (;;) {
    if (await tookLock(file)) return { [Symbol.asyncDispose]: () => rm(file, { force: true }) }
    if (await holderIsGone(file)) await rm(file, { force: true })
    else await delay(lockPollMs)
  }
}

async function tookLock(file: string): Promise<boolean> {
  try {
    await using handle = await open(file, 'wx')
    await handle.writeFile(String(process.pid))
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  }
}

/** An empty file is a holder that has not written its pid yet; an old one is that of a pid that lives on as another program. */
async function holderIsGone(file: string): Promise<boolean> {
  try {
    const [pid, { mtimeMs }] = [Number(await readFile(file, 'utf8')), await stat(file)]
    if (pid > 0) process.kill(pid, 0)
    return Date.now() - mtimeMs > longestBuildMs
  } catch (error) {
    return errorCode(error) === 'ESRCH'
  }
}

function errorCode(error: unknown): string | undefined {
  return z.object({ code: z.string() }).safeParse(error).data?.code
}
