import { sentence } from '../../contract/clean-text.ts'
import type { RuntimeView } from '../../contract/runtimes.ts'
import { launchEnvironment } from '../process/launch.ts'
import type { Binary } from '../runtimes/binary.ts'
import { askProgram, ProgramError } from '../support/ask-program.ts'

const limitMs = 10_000
const maxVersionBytes = 100

/** Every runtime that this agent can serve a model with. */
export async function runtimes(llamaServer: () => Promise<Binary>): Promise<{ runtimes: RuntimeView[] }> {
  return { runtimes: [{ name: 'llama-server', ...(await facts(await llamaServer())) }] }
}

async function facts(binary: Binary): Promise<Omit<RuntimeView, 'name'>> {
  if (binary.kind === 'missing') return { message: binary.message }
  const { path } = binary
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
