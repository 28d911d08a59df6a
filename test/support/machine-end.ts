import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { RunningAgent } from './running-agent.ts'
import { StatedMemory, statedPlatform } from './stated-memory.ts'

/** What an agent of the next boot can know of this one. */
const files = ['ledger.json', 'panic-fuse.json']

/** This host as it would be after another boot. */
export const inBoot = (bootId: string, { hasPanicReport = false } = {}): StatedMemory =>
  new StatedMemory(
    statedPlatform(hostPlatform(), {
      bootId: () => Promise.resolve(bootId),
      hasPanicReportSince: () => Promise.resolve(hasPanicReport),
    }),
  )

/** The machine ends while the agent and its models run: the state folder stays as it is now, and nothing else does. */
export async function endMachineOf(agent: RunningAgent): Promise<void> {
  const left = await Promise.all(
    files.map(async (name) => {
      const file = join(agent.stateDir, name)
      return { file, content: await readFile(file).catch(() => undefined) }
    }),
  )
  await agent.stop()
  for (const { file, content } of left) {
    if (content) await writeFile(file, content)
    else await rm(file, { force: true })
  }
}
