import { stat } from 'node:fs/promises'
import { askProgram, ProgramError } from '../util/ask-program.ts'
import { findExecutable, type Executable, type ExecutableSearch } from '../util/find-executable.ts'
import { flagsIn } from './llama-server-flags.ts'

export type Binary = Executable

const wanted = {
  name: 'llama-server',
  flag: '--llama-server',
  notInstalled: {
    darwin:
      'llama-server is not installed here: install it with "brew install llama.cpp", or say where it is with --llama-server.',
    linux:
      'llama-server is not on PATH: install llama.cpp, with "brew install llama.cpp" or as a package, or say where it is with --llama-server.',
  },
}

export const findLlamaServer = (search: ExecutableSearch): Promise<Binary> => findExecutable(wanted, search)

const devicesLimitMs = 10_000

/**
 * What `--list-devices` prints, which includes how much GPU memory Metal recommends to use at most.
 * Throws ProgramError.
 */
export async function listDevices(llamaServer: string, env: Readonly<Record<string, string>>): Promise<string> {
  const { stdout, stderr } = await askProgram({
    command: llamaServer,
    args: ['--list-devices'],
    env,
    timeLimitMs: devicesLimitMs,
  })
  return `${stdout}\n${stderr}`
}

/** How one build of llama-server spells what builds spell differently. */
export interface LlamaServerDialect {
  /** Keeps the model in memory; empty where the build has no word for it. */
  readonly lockMemory: readonly string[]
  /** Knows `--cache-ram`, without which its cache of prompts grows to 8 GiB of the host's memory. */
  readonly boundsPromptCache: boolean
  /** Keeps pages in a browser and the prompts of others away, as far as the build can. */
  readonly reserve: readonly string[]
  /** Every flag it knows; undefined where it does not say. */
  readonly flags: ReadonlySet<string> | undefined
}

/** Every llama.cpp up to 2026, and what LLMKube documents. */
export const classicDialect: LlamaServerDialect = {
  lockMemory: ['--mlock'],
  boundsPromptCache: false,
  reserve: [],
  flags: undefined,
}

/** `--help` answers in milliseconds; a binary that is scanned at its first start may take seconds. */
const helpLimitMs = 10_000

/** Reads a dialect out of what `llama-server --help` prints: later builds refuse to start with `--mlock`. */
export function dialectFrom(help: string): LlamaServerDialect {
  const flags = flagsIn(help)
  return {
    lockMemory: memoryLock(help, flags),
    boundsPromptCache: flags.has('--cache-ram'),
    reserve: [
      // No origin at all: what comes after the flag is a list.
      ...(flags.has('--cors-origins') ? ['--cors-origins', ''] : []),
      ...(flags.has('--no-slots') ? ['--no-slots'] : []),
    ],
    flags,
  }
}

function memoryLock(help: string, flags: ReadonlySet<string>): readonly string[] {
  if (flags.has('--mlock')) return classicDialect.lockMemory
  if (flags.has('--load-mode')) return ['--load-mode', help.includes('mmap+mlock') ? 'mmap+mlock' : 'mlock']
  return []
}

/** Asks each binary once, and again when its file changed. */
export class LlamaServerDialects {
  readonly #known = new Map<string, { readonly stamp: string; readonly dialect: Promise<LlamaServerDialect> }>()

  /**
   * The classic one where the binary does not say: its own error is then what a person reads. `env` is the agent's own, never a
   * service's: the first answer is kept for all services.
   */
  async of(executable: string, env: Readonly<Record<string, string>>): Promise<LlamaServerDialect> {
    const { mtimeMs, size, ino } = await stat(executable)
    const stamp = `${mtimeMs} ${size} ${ino}`
    const known = this.#known.get(executable)
    if (known?.stamp === stamp) return known.dialect
    const entry = { stamp, dialect: this.#ask(executable, env, () => this.#forget(executable, stamp)) }
    this.#known.set(executable, entry)
    return entry.dialect
  }

  /** An answer that did not come is asked for again at the next start. */
  async #ask(
    executable: string,
    env: Readonly<Record<string, string>>,
    onFailure: () => void,
  ): Promise<LlamaServerDialect> {
    const question = { command: executable, args: ['--help'], env, timeLimitMs: helpLimitMs }
    const answer = await askProgram(question).catch((error: unknown) => {
      if (error instanceof ProgramError) return undefined
      throw error
    })
    if (answer?.exitCode === 0) return dialectFrom(`${answer.stdout}\n${answer.stderr}`)
    onFailure()
    return classicDialect
  }

  #forget(executable: string, stamp: string): void {
    if (this.#known.get(executable)?.stamp === stamp) this.#known.delete(executable)
  }
}
