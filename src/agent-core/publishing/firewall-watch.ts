import { realpath } from 'node:fs/promises'
import { shellWord } from '../../contract/shell.ts'
import type { Logger } from '../observability/logger.ts'
import { darwinCommands } from '../platform/darwin.ts'
import type { Firewall, Platform } from '../platform/platform.ts'

/** Soon enough for a person who has just allowed the program; macOS answers in a few milliseconds. */
const lookEveryMs = 60_000

export interface FirewallWatchOptions {
  readonly platform: Pick<Platform, 'firewall'>
  /** What is started to serve; a link is followed, since macOS judges the file itself, which is another after each `brew upgrade`. */
  readonly program: () => Promise<string | undefined>
  /** Whether a server answers: macOS learns of a program when it first listens, and may ask the person then. */
  readonly isServing: () => boolean
  readonly log: Logger
  readonly onChange: () => void
}

/** Whether the firewall of macOS drops what Pods send: the Mac itself reaches its servers all the same, so that nothing else shows it. */
export class FirewallWatch implements Disposable {
  readonly #options: FirewallWatchOptions
  readonly #timer: NodeJS.Timeout
  #notice: string | undefined
  #cannotAsk = false

  constructor(options: FirewallWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.look(), lookEveryMs)
    this.#timer.unref()
  }

  /** One sentence with what to do; undefined where nothing is known to be in the way. */
  get notice(): string | undefined {
    return this.#notice
  }

  /** Never rejects: where macOS does not answer, what was known before stays. */
  async look(): Promise<void> {
    const { platform, program, isServing, log, onChange } = this.#options
    if (!isServing()) return
    try {
      const firewall = await platform.firewall()
      const started = firewall && (await program())
      const notice = started === undefined ? undefined : firewallNotice(firewall, await realpath(started))
      this.#cannotAsk = false
      if (notice === this.#notice) return
      this.#notice = notice
      if (notice !== undefined) log.warn('the firewall blocks clients', { text: notice })
      onChange()
    } catch (error) {
      if (!this.#cannotAsk) log.warn('firewall not checked', { error })
      this.#cannotAsk = true
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}

/** One sentence where the firewall keeps Pods from what this program serves; `program` without links. */
export function firewallNotice(firewall: Firewall | undefined, program: string): string | undefined {
  if (firewall?.state === 'blocksAll') {
    return 'The macOS firewall blocks all incoming connections, so Pods get no answer: switch that off in System Settings, Network, Firewall, Options.'
  }
  if (firewall?.state !== 'byProgram' || firewall.allowed.has(program)) return undefined
  return `The macOS firewall is on and does not allow ${program}, so Pods may get no answer. In Terminal: ${allowCommand(program)}`
}

/** Has the firewall let a program in. */
export function allowCommand(program: string): string {
  const [tool, file] = [darwinCommands.firewall, shellWord(program)]
  return `sudo ${tool} --add ${file}; sudo ${tool} --unblockapp ${file}`
}
