import { rename } from 'node:fs/promises'
import { basename } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import type { z } from 'zod'
import { parseJson, readIfThere } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'

/** One sentence: which file of the state folder cannot be read or written, and why. */
export class StateFileError extends Error {
  override readonly name = 'StateFileError'
}

/** Renames a file of ours that cannot be understood, for a person to look at, and returns its new path. Throws what the disk answers. */
export async function setAside(file: string, now: () => number = Date.now): Promise<string> {
  const aside = `${file}.broken-${now()}`
  await rename(file, aside)
  return aside
}

/**
 * What a file of ours says. Where `read` does not understand its text (undefined), or it is larger than `maxBytes`, it is set aside under
 * the path that is returned. Throws what the disk answers.
 */
export async function readOrSetAside<T>(
  file: string,
  read: (text: string) => T | undefined,
  { maxBytes, now }: { maxBytes?: number | undefined; now?: (() => number) | undefined } = {},
): Promise<{ readonly value?: T; readonly aside?: string }> {
  const text = await readIfThere(file, maxBytes)
  if (text === undefined) return {}
  const value = read(text)
  return value === undefined ? { aside: await setAside(file, now) } : { value }
}

export interface StateFileOptions<T> {
  readonly file: string
  readonly schema: z.ZodType<T>
  /** What counts where there is no file. */
  readonly initial: T
  /** Names what is lost with a broken file, such as "what was stopped on this machine". */
  readonly keeps: string
  /** A larger one is not ours, or would cost the agent its memory; it is set aside as what cannot be understood is. */
  readonly maxBytes?: number
  readonly now?: () => number
  /** One that cannot be read or understood stays where it is, and `initial` counts: whoever only looks changes nothing that an agent will find. */
  readonly isOnlyLookedAt?: boolean
}

/** One small JSON file that outlives the agent: its content is checked when it is read, and replaced as a whole when it is written. */
export class StateFile<T> {
  /** What a person should know, such as that the file could not be read. */
  readonly notice: string | undefined
  /** Its path. */
  readonly file: string
  #value: T
  #writing: Promise<unknown> = Promise.resolve()

  private constructor(file: string, value: T, notice: string | undefined) {
    this.file = file
    this.#value = value
    this.notice = notice
  }

  /** A file that cannot be understood is set aside; throws StateFileError where the disk says no. */
  static async open<T>(options: StateFileOptions<T>): Promise<StateFile<T>> {
    const { file, schema, initial, keeps, maxBytes, now, isOnlyLookedAt = false } = options
    try {
      const read = (text: string) => schema.safeParse(parseJson(text)).data
      if (isOnlyLookedAt) {
        const text = await readIfThere(file, maxBytes)
        const value = text === undefined ? initial : read(text)
        return new StateFile(file, value ?? initial, value ? undefined : `${file} cannot be parsed.`)
      }
      const { value = initial, aside } = await readOrSetAside(file, read, { maxBytes, now })
      const notice =
        aside && `${file} could not be parsed and was set aside as ${basename(aside)}: ${keeps} is forgotten.`
      return new StateFile(file, value, notice)
    } catch (error) {
      const failure = notPossible('read', file, error)
      if (isOnlyLookedAt) return new StateFile(file, initial, failure.message)
      throw failure
    }
  }

  get value(): T {
    return this.#value
  }

  /** One change after the other. Throws StateFileError; then nothing has changed. */
  update(change: (value: T) => T): Promise<void> {
    const writing = this.#writing.then(() => this.#write(change))
    this.#writing = writing.catch(() => undefined)
    return writing
  }

  async #write(change: (value: T) => T): Promise<void> {
    const next = change(this.#value)
    if (next === this.#value) return
    try {
      await writeFileAtomic(this.file, `${JSON.stringify(next, null, 2)}\n`, { mode: 0o600 })
    } catch (error) {
      throw notPossible('written', this.file, error)
    }
    this.#value = next
  }
}

const notPossible = (what: 'read' | 'written', file: string, error: unknown) =>
  new StateFileError(`${file} cannot be ${what}: ${messageOf(error)}; check the disk and the folder's permissions.`, {
    cause: error,
  })
