import { askProgram, ProgramError } from '../util/ask-program.ts'
import { stateOfFile } from '../util/files.ts'

/** How one build of a runtime spells what builds spell differently. */
export interface Dialect {
  /** Keeps the model in memory; empty where the build has no word for it. */
  readonly lockMemory: readonly string[]
  /** Its cache of prompts can be bounded: llama-server's grows to 8 GiB of the host's memory otherwise. */
  readonly boundsPromptCache: boolean
  /** Keeps pages in a browser and the prompts of others away, as far as the build can. */
  readonly reserve: readonly string[]
  /** Every flag it knows; undefined where it does not say. */
  readonly flags: ReadonlySet<string> | undefined
  /** Why the build must not be started, said of its path: "is version 0.2, which …". */
  readonly problem?: string
}

interface Asked {
  readonly helpArgs: readonly string[]
  readonly dialectFrom: (help: string) => Dialect
  readonly usualDialect: Dialect
}

/** llama-server answers in milliseconds, Python in seconds; a binary that is scanned at its first start may take longer. */
const helpLimitMs = 20_000

/** Asks each binary once, and again when its file changed. */
export class Dialects {
  readonly #known = new Map<string, { readonly state: string; readonly dialect: Promise<Dialect> }>()

  /**
   * The usual one where the binary does not say: its own error is then what a person reads. `env` is the agent's own, never a
   * service's: the first answer is kept for all services.
   */
  async of(
    { helpArgs, dialectFrom, usualDialect }: Asked,
    executable: string,
    env: Readonly<Record<string, string>>,
  ): Promise<Dialect> {
    const state = await stateOfFile(executable)
    const known = this.#known.get(executable)
    if (known?.state === state) return known.dialect
    const asked = helpOf(executable, helpArgs, env).then((help) => {
      if (help !== undefined) return dialectFrom(help)
      // An answer that did not come is asked for again at the next start.
      if (this.#known.get(executable)?.state === state) this.#known.delete(executable)
      return usualDialect
    })
    this.#known.set(executable, { state, dialect: asked })
    return asked
  }
}

async function helpOf(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const answer = await askProgram({ command, args, env, timeLimitMs: helpLimitMs }).catch((error: unknown) => {
    if (error instanceof ProgramError) return undefined
    throw error
  })
  return answer?.exitCode === 0 ? `${answer.stdout}\n${answer.stderr}` : undefined
}
