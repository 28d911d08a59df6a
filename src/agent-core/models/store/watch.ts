import { constants, type Stats } from 'node:fs'
import { access, chmod, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { shellCommand } from '../../../contract/shell.ts'
import type { Logger } from '../../observability/logger.ts'
import { parseJson, readIfThere } from '../../util/files.ts'
import { ModelError } from '../errors.ts'
import { entriesOf, statIfThere, storeError } from './files.ts'

/** What is found out about a store's folder and those above it. */
export interface FolderJudgement {
  /** While it is set, nothing is written to the store or served from it. */
  readonly problem?: ModelError
  /** What a person should know, one sentence each. */
  readonly warnings: readonly string[]
}

/**
 * Judges whether other users could put files into the model store: a store of this user is closed to them, one of another user is refused.
 * Root is trusted, and its store left as it is.
 */
export async function judgeStoreFolder(
  directory: string,
  { uid, username }: { readonly uid: number; readonly username: string } = userInfo(),
): Promise<FolderJudgement> {
  const found = await statIfThere(directory)
  if (found === undefined) return { warnings: [] }
  const isOurs = found.uid === uid || uid === -1
  if (!isOurs && found.uid !== 0) return { problem: foreign(directory, found, username), warnings: [] }
  const warnings: string[] = []
  if ((found.mode & 0o022) !== 0) {
    // Some volumes keep no modes.
    const isMended =
      isOurs &&
      (await chmod(directory, found.mode & 0o755).then(
        () => true,
        () => false,
      ))
    const outcome = isMended
      ? '; the agent has restricted it to this user'
      : isOurs
        ? ': choose a --model-store on a volume that keeps permissions'
        : `: fix that with "${shellCommand(['sudo', 'chmod', 'go-w', directory])}"`
    warnings.push(
      `Others ${isMended ? 'could' : 'can'} write to the model store ${directory} (mode ${octal(found)})${outcome}.`,
    )
  }
  for (let above = dirname(directory), below = directory; above !== below; [above, below] = [dirname(above), above]) {
    const state = await stat(above)
    const isOthers = state.uid !== uid && state.uid !== 0
    const isOpen = (state.mode & 0o022) !== 0 && (state.mode & 0o1000) === 0
    if (isOthers || isOpen) {
      warnings.push(
        `Others could replace the model store ${directory}, since ${above} ${isOthers ? `belongs to user ${state.uid}` : `may be written by them (mode ${octal(state)})`}: choose a --model-store in a folder of your own.`,
      )
    }
  }
  return { warnings }
}

/** Whether a reboot or a clean-up empties the folder. */
export const isWiped = (folder: string): boolean =>
  /^(?:\/private)?(?:\/tmp|\/var\/tmp|\/var\/folders)(?:\/|$)/.test(folder)

/** One sentence where a restart of the machine may empty the store. */
export const temporaryNote = (directory: string): string | undefined =>
  isWiped(directory)
    ? `The model store ${directory} is in a folder for temporary files, which a restart may empty: choose another --model-store.`
    : undefined

const octal = ({ mode }: Stats): string => (mode & 0o7777).toString(8).padStart(4, '0')

const foreign = (directory: string, found: Stats, username: string): ModelError =>
  ModelError.untilRepairedHere(
    'StoreNotOurs',
    `The model store ${directory} belongs to user ${found.uid} (mode ${octal(found)}), who could put anything there: give it to this user with "${shellCommand(['sudo', 'chown', '-R', username, directory])}", or choose another --model-store.`,
  )

export interface StorePlace {
  /** The store's folder itself, or the nearest above it that exists. */
  readonly nearest: string
  /** Where the volume of `nearest` is mounted, as far as its path goes: a link to another volume counts as a mount. */
  readonly mountPoint: string
}

export async function placeOf(directory: string): Promise<StorePlace> {
  let nearest = directory
  let found = await statIfThere(nearest)
  while (!found) {
    nearest = dirname(nearest)
    found = await statIfThere(nearest)
  }
  let mountPoint = nearest
  for (let above = dirname(mountPoint); above !== mountPoint; above = dirname(mountPoint)) {
    if ((await statIfThere(above))?.dev !== found.dev) break
    mountPoint = above
  }
  return { nearest, mountPoint }
}

/** Where macOS mounts volumes: a folder of that name without a volume would be on the system's own. */
const volumesFolder = '/Volumes'

/**
 * Whether the volume that the store belongs on is away. A store is at home where it was last seen; on another volume it
 * is taken for the store only where models lie in it, so that the empty mount point of a disk is never filled.
 */
export async function isAway(directory: string, place: StorePlace, home: string | undefined): Promise<boolean> {
  if (place.nearest === volumesFolder) return true
  if (home === undefined || home === place.mountPoint) return false
  return place.nearest !== directory || !(await hasModels(directory))
}

const hasModels = async (directory: string): Promise<boolean> =>
  (await entriesOf(directory)).some(({ name }) => !name.startsWith('.'))

/** Where the store was last seen, which is kept over restarts of the agent. It counts only for the same folder. */
const homeShape = z.object({ directory: z.string(), mountPoint: z.string() })
const maxHomeBytes = 64 * 1024

/** Looking costs a few system calls, and tells of a volume that went before a model is wanted. */
const lookEveryMs = 15_000

export interface StoreWatchOptions {
  readonly directory: string
  /** Keeps, beyond the end of the agent, on which volume the store is; without it that is forgotten. */
  readonly homeFile: string | undefined
  readonly log: Logger
  readonly onChange: () => void
}

/** Whether the store can be used: volumes come and go, and are made read-only. */
export class StoreWatch {
  readonly #options: StoreWatchOptions
  readonly #warned = new Set<string>()
  /** The mount point that the store was last seen at; undefined where it was never seen, or in another folder. Absent until it was read. */
  #home: { readonly mountPoint: string | undefined } | undefined
  #problem: ModelError | undefined
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<ModelError | undefined> | undefined

  constructor(options: StoreWatchOptions) {
    this.#options = options
  }

  /** As of the last look: one sentence. */
  get problem(): string | undefined {
    return this.#problem?.message
  }

  start(): void {
    const note = temporaryNote(this.#options.directory)
    if (note !== undefined) this.#options.log.info('model store may be emptied by a restart', { text: note })
    void this.look()
    this.#timer = setInterval(() => void this.look(), lookEveryMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Before something of the store is served. Throws ModelError where it belongs to another user. */
  async requireOwn(): Promise<void> {
    const { problem } = await judgeStoreFolder(this.#options.directory)
    if (problem) throw problem
  }

  /** Before the store is written to, and perhaps made. Throws ModelError where that cannot be. */
  async requireWritable(): Promise<void> {
    const problem = await this.#look({ isMade: true })
    if (problem) throw problem
  }

  /** One at a time: on a dead volume every further look would hang too. Never rejects. */
  look(): Promise<ModelError | undefined> {
    this.#looking ??= this.#look({ isMade: false }).finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #look({ isMade }: { isMade: boolean }): Promise<ModelError | undefined> {
    const { directory, log, onChange } = this.#options
    const before = this.#problem?.message
    this.#problem = await this.#seen(isMade)
    const { message, reason } = this.#problem ?? {}
    if (message === before) return this.#problem
    if (message === undefined) log.info('model store can be used again', { directory })
    else log.warn('model store cannot be used', { directory, reason, message })
    onChange()
    return this.#problem
  }

  async #seen(isMade: boolean): Promise<ModelError | undefined> {
    const { directory } = this.#options
    try {
      const place = await placeOf(directory)
      this.#home ??= { mountPoint: await this.#readHome() }
      if (await isAway(directory, place, this.#home.mountPoint)) return gone(directory)
      const { problem, warnings } = await judgeStoreFolder(directory)
      if (problem) return problem
      for (const text of warnings) this.#warnOnce(text)
      await access(place.nearest, constants.W_OK)
      if (isMade || place.nearest === directory) await this.#keepHome(place.mountPoint)
      return undefined
    } catch (error) {
      return storeError(error, directory)
    }
  }

  #warnOnce(text: string): void {
    if (this.#warned.has(text)) return
    this.#warned.add(text)
    this.#options.log.warn('others may reach the model store', { directory: this.#options.directory, text })
  }

  async #readHome(): Promise<string | undefined> {
    const { directory, homeFile } = this.#options
    const text = homeFile === undefined ? undefined : await readIfThere(homeFile, maxHomeBytes)
    const home = homeShape.safeParse(parseJson(text ?? '')).data
    return home?.directory === directory ? home.mountPoint : undefined
  }

  /** Where it cannot be written down, it counts until the agent ends. */
  async #keepHome(mountPoint: string): Promise<void> {
    const { directory, homeFile, log } = this.#options
    if (this.#home?.mountPoint === mountPoint) return
    this.#home = { mountPoint }
    if (homeFile === undefined) return
    try {
      await writeFileAtomic(homeFile, `${JSON.stringify({ directory, mountPoint })}\n`, { mode: 0o600 })
    } catch (error) {
      log.warn('volume of the model store not remembered', { directory, mountPoint, error })
    }
  }
}

const gone = (directory: string): ModelError =>
  ModelError.untilRepairedHere(
    'StoreGone',
    `The volume of the model store ${directory} is not mounted: connect it again, or choose another --model-store.`,
  )
