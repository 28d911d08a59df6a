import { askProgram } from '../util/ask-program.ts'

const limitMs = 10_000

/**
 * What this llama-server tells of the machine's devices, among it how much Metal recommends to keep in GPU memory at most.
 * Throws ProgramError.
 */
export async function devicesAsTold(llamaServer: string, env: Readonly<Record<string, string>>): Promise<string> {
  const { stdout, stderr } = await askProgram({
    command: llamaServer,
    args: ['--list-devices'],
    env,
    timeLimitMs: limitMs,
  })
  return `${stdout}\n${stderr}`
}
