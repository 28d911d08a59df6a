import { stat } from 'node:fs/promises'
import { sentence } from '../../../contract/clean-text.ts'
import type { RuntimeView } from '../../../contract/queries.ts'
import { launchEnvironment } from '../../servers/launch.ts'
import type { Binary } from '../../runtimes/llama-server-binary.ts'
import { askProgram, ProgramError } from '../../util/ask-program.ts'

const limitMs = 10_000
const maxVersionBytes = 100

type Facts = Omit<RuntimeView, 'name'>

/** Every runtime that this agent can serve a model with. */
export class Runtimes {
  #known: { readonly stamp: string; readonly facts: Promise<Facts> } | undefined

  async view(llamaServer: () => Promise<Binary>): Promise<{ runtimes: RuntimeView[] }> {
    const binary = await llamaServer()
    const facts = binary.kind === 'missing' ? { message: binary.message } : await this.#factsOf(binary.path)
    return { runtimes: [{ name: 'llama-server', ...facts }] }
  }

  /** The binary is asked once for its file as it is; one that did not answer is asked again by the next question. */
  async #factsOf(path: string): Promise<Facts> {
    const stamp = await stampOf(path)
    const known = this.#known
    if (known?.stamp === stamp) return known.facts
    const asked = { stamp, facts: askedOf(path) }
    this.#known = asked
    const facts = await asked.facts
    if (facts.message !== undefined && this.#known === asked) this.#known = undefined
    return facts
  }
}

async function stampOf(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined)
  return JSON.stringify([path, found?.mtimeMs, found?.size, found?.ino])
}

async function askedOf(path: string): Promise<Facts> {
  try {
    const env = launchEnvironment()
    const { stdout, stderr } = await askProgram({ command: path, args: ['--version'], env, timeLimitMs: limitMs })
    const version = /^version: *(\S.*)$/m.exec(`${stderr}\n${stdout}`)?.[1]
    return { path, ...(version !== undefined && { version: sentence(version, maxVersionBytes) }) }
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error
    return { path, message: error.message }
  }
}
