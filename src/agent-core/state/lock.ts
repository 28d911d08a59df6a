import { randomUUID } from 'node:crypto'
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import type { Platform } from '../platform/platform.ts'
import { hasCode, parseJson, readIfThere } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'

const lockContent = z.object({
  pid: z.int().positive(),
  /** As the platform prints it: the same pid with another start time is another process. */
  processStartTime: z.string(),
  since: z.iso.datetime(),
  token: z.string(),
})
type LockContent = z.infer<typeof lockContent>

export interface LockOptions {
  readonly file: string
  /** Undefined = there is no such process. */
  readonly processStartTime: (pid: number) => Promise<string | undefined>
  /** What only one agent may use; completes "… uses <what>: stop it, or give this one <instead>." Absent = a state folder. */
  readonly guards?: Guarded
  readonly pid?: number
  readonly now?: () => Date
}

interface Guarded {
  readonly what: string
  readonly instead: string
}

const stateFolder: Guarded = { what: 'this state folder', instead: 'another --state-dir' }

interface Lock {
  /** Gives up the lock; someone else's lock in its place is left alone. */
  release(): Promise<void>
}

export type LockResult =
  | {
      readonly ok: true
      readonly lock: Lock
      /** A lock whose holder had ended was cleared away. */ readonly wasStale: boolean
    }
  | { readonly ok: false; readonly holder: { readonly pid: number; readonly since: string }; readonly message: string }
  /** The disk said no. */
  | { readonly ok: false; readonly holder: undefined; readonly message: string }

/** Takes a lock, or names its holder. */
export async function acquireLock(options: LockOptions): Promise<LockResult> {
  const { pid = process.pid, now = () => new Date(), file, processStartTime } = options
  const token = randomUUID()
  const mine = `${file}.${token}`
  try {
    const startTime = await processStartTime(pid)
    if (startTime === undefined) throw new Error(`the start time of process ${pid} cannot be read`)
    const content: LockContent = { pid, processStartTime: startTime, since: now().toISOString(), token }
    await writeFile(mine, `${JSON.stringify(content)}\n`, { mode: 0o600, flag: 'wx' })
    return await take(options, mine, token)
  } catch (error) {
    const why = messageOf(error)
    return { ok: false, holder: undefined, message: `The lock ${file} cannot be taken: ${why}.` }
  } finally {
    await rm(mine, { force: true })
  }
}

/** The holder of a lock; undefined where the lock is free, or the process that took it has ended. */
export async function lockHolder({
  file,
  processStartTime,
}: Pick<LockOptions, 'file' | 'processStartTime'>): Promise<Pick<LockContent, 'pid' | 'since'> | undefined> {
  const text = await readIfThere(file)
  const holder = text === undefined ? undefined : parse(text)
  return holder !== undefined && (await processStartTime(holder.pid)) === holder.processStartTime ? holder : undefined
}

/** Stale locks are cleared a few times only: more would mean that others clear ours. */
const attempts = 5

/**
 * A hard link is as exclusive as O_EXCL and has its content from the first moment on, so that no reader sees a lock that is only half
 * written.
 */
async function take(
  { file, processStartTime, guards = stateFolder }: LockOptions,
  mine: string,
  token: string,
): Promise<LockResult> {
  let wasStale = false
  for (let attempt = 0; attempt < attempts; attempt++) {
    if (await linked(mine, file)) return { ok: true, lock: { release: () => release(file, token) }, wasStale }
    const found = await readIfThere(file)
    if (found === undefined) continue
    const holder = parse(found)
    if (holder !== undefined && (await processStartTime(holder.pid)) === holder.processStartTime)
      return heldBy(holder, guards)
    const contender = await clearAway(file, found)
    if (contender !== undefined) return heldBy(contender, guards)
    wasStale = true
  }
  return {
    ok: false,
    holder: undefined,
    message: `The lock ${file} keeps changing hands: stop the other agents that start with ${guards.what}.`,
  }
}

function heldBy({ pid, since }: LockContent, { what, instead }: Guarded): LockResult {
  const message = `Another agent (process ${pid}, since ${since}) uses ${what}: stop it, or give this one ${instead}.`
  return { ok: false, holder: { pid, since }, message }
}

/** Renames first and looks then: a lock moved away by mistake, because another agent was faster, is put back. */
async function clearAway(file: string, stale: string): Promise<LockContent | undefined> {
  const aside = `${file}.stale-${randomUUID()}`
  try {
    await rename(file, aside)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
  const moved = await readFile(aside, 'utf8')
  const contender = moved === stale ? undefined : parse(moved)
  if (contender !== undefined) await linked(aside, file)
  await rm(aside, { force: true })
  return contender
}

async function release(file: string, token: string): Promise<void> {
  const found = await readIfThere(file)
  if (found !== undefined && parse(found)?.token === token) await rm(file, { force: true })
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw error
  }
}

const parse = (text: string) => lockContent.safeParse(parseJson(text)).data

/**
 * When a process began, so that its number tells it from others; undefined where there is none. Linux counts from the boot, so that the
 * same figure may come up again after the next boot.
 */
export async function startTimeOf(
  platform: Pick<Platform, 'process' | 'bootId'>,
  pid: number,
): Promise<string | undefined> {
  const facts = await platform.process(pid)
  return facts && `${await platform.bootId()}:${facts.startTime}`
}
