import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { RunningAgent } from './running-agent.ts'
import { StatedMemory, statedPlatform } from './stated-memory.ts'

/** This host as it would be after another boot. */
export const inBoot = (bootId: string): StatedMemory =>
  new StatedMemory(
    statedPlatform(hostPlatform(), {
      bootId: () => Promise.resolve(bootId),
    }),
  )

/** The machine ends while the agent and its models run: the state folder stays as it is now, and nothing else does. */
export async function endMachineOf(agent: RunningAgent): Promise<void> {
  const file = join(agent.stateDir, 'ledger.json')
  const ledger = await readFile(file)
  await agent.stop()
  await writeFile(file, ledger)
}
