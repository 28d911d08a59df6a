import { readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { HubTokenState } from '../../contract/app-state.ts'
import { LinkError } from '../../contract/client.ts'
import { machineWords } from '../words.ts'

export interface Cipher {
  /** False where there can be none; asks nobody for it. */
  isPossible(): boolean
  isThere(): Promise<boolean>
  encrypt(text: string): Promise<Buffer>
  decrypt(content: Buffer): Promise<Decrypted>
}

export interface Decrypted {
  readonly text: string
  /** The key or the cipher has changed: the token is to be encrypted again. */
  readonly isOutdated: boolean
}

export interface KeptTokenOptions {
  readonly stateDir: string
  readonly cipher: Cipher
  readonly log: Logger
}

/** What the Hub gives out; a line break would end a header and begin another. */
const tokenPattern = /^[\x21-\x7e]{1,1000}$/

const words = machineWords.token

/** The person's token of the Hub, in a file of the state folder that only this app can read. The token itself is never logged. */
export class KeptToken {
  readonly #options: KeptTokenOptions
  readonly #file: string
  #isUnreadable = false

  constructor(options: KeptTokenOptions) {
    this.#options = options
    this.#file = path.join(options.stateDir, 'hub-token.encrypted')
  }

  /** Leaves the keychain alone, for which the system may ask a person. */
  async state(): Promise<HubTokenState> {
    if (this.#isUnreadable) return 'unreadable'
    try {
      if ((await this.#content()) !== undefined) return 'kept'
    } catch (error) {
      this.#options.log.warn('the file of the Hub token cannot be read', { error })
      return 'unreadable'
    }
    return this.#options.cipher.isPossible() ? 'none' : 'unavailable'
  }

  /** Undefined where none is kept. Throws where it cannot be read. */
  async read(): Promise<string | undefined> {
    const content = await this.#content()
    if (content === undefined) return undefined
    try {
      const { text, isOutdated } = await this.#options.cipher.decrypt(content)
      this.#isUnreadable = false
      if (isOutdated) await this.#encryptAgain(content, text)
      return text
    } catch (error) {
      this.#isUnreadable = true
      this.#options.log.warn('the Hub token cannot be read', { error })
      throw new Error(words.unreadable, { cause: error })
    }
  }

  /** Throws LinkError. */
  async set(written: string): Promise<void> {
    const { cipher, log } = this.#options
    const token = written.trim()
    if (!tokenPattern.test(token)) throw new LinkError('refused', words.isNone)
    if (!cipher.isPossible() || !(await cipher.isThere())) {
      throw new LinkError('refused', words.noKeychain)
    }
    try {
      await writeFileAtomic(this.#file, await cipher.encrypt(token), { mode: 0o600 })
    } catch (error) {
      throw new LinkError('refused', words.notKept(messageOf(error)), { cause: error })
    }
    this.#isUnreadable = false
    log.info('keeps a Hub token')
  }

  async remove(): Promise<void> {
    await rm(this.#file, { force: true })
    this.#isUnreadable = false
    this.#options.log.info('keeps no Hub token')
  }

  /** What was read counts, whether this is done or not. */
  async #encryptAgain(content: Buffer, token: string): Promise<void> {
    const { cipher, log } = this.#options
    try {
      const renewed = await cipher.encrypt(token)
      // A person may have written another one meanwhile, or removed it.
      if ((await this.#content())?.equals(content) !== true) return
      await writeFileAtomic(this.#file, renewed, { mode: 0o600 })
      log.info('encrypted the Hub token again')
    } catch (error) {
      log.warn('the Hub token was not encrypted again', { error })
    }
  }

  async #content(): Promise<Buffer | undefined> {
    try {
      return await readFile(this.#file)
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
      throw error
    }
  }
}
