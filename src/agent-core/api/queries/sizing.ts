import { LinkError } from '../../../contract/client.ts'
import type { HolderView, SizingView } from '../../../contract/memory.ts'
import type { HeldMemory } from '../../memory/holds.ts'
import type { Memory } from '../../memory/memory.ts'
import type { Binary } from '../../runtimes/llama-server-binary.ts'
import { splitKey } from '../../util/object-key.ts'

export interface SizingSources {
  readonly platform: SizingView['platform']
  readonly memory: Pick<Memory, 'fresh' | 'view' | 'budget' | 'problem' | 'book' | 'applications'>
  readonly metal: boolean
  readonly llamaServer: () => Promise<Binary>
  readonly modelStore: string
}

/** What the agent would size one more model with, as of now. Throws LinkError where it does not know itself. */
export async function sizing({ platform, memory, metal, llamaServer, modelStore }: SizingSources): Promise<SizingView> {
  await memory.fresh()
  const [applications, binary] = await Promise.all([memory.applications(), llamaServer()])
  const { view, budget, problem, book } = memory
  if (!view?.figures || !budget)
    throw new LinkError('refused', problem ?? view?.problem ?? 'The agent has not looked at the memory yet.')
  const { held, waiting } = book.state()
  return {
    platform,
    totalBytes: view.figures.totalBytes,
    availableBytes: view.figures.availableBytes,
    budgetBytes: budget.bytes,
    budgetHow: budget.how,
    ...(budget.gpuLimitBytes !== undefined && { gpuLimitBytes: budget.gpuLimitBytes }),
    pressure: view.level,
    holders: holdersOf(held),
    waiting: waiting.map(({ key }) => key),
    applications: applications.map(({ name, bytes }) => ({ name, bytes })),
    metal,
    ...(binary.kind === 'found' && { llamaServer: binary.path }),
    modelStore,
  }
}

/** By service, since a stopped service gives back what all of its servers hold; the largest first. */
function holdersOf(held: readonly HeldMemory[]): HolderView[] {
  const byKey = Map.groupBy(held, ({ key }) => key)
  const holders = [...byKey].map(([key, servers]) => {
    const sum = (of: (server: HeldMemory) => number) => servers.reduce((total, server) => total + of(server), 0)
    return {
      ...splitKey(key),
      priority: servers[0]?.priority ?? 'normal',
      committedBytes: sum(({ committedBytes }) => committedBytes),
      residentBytes: sum(({ residentBytes }) => residentBytes),
      promisedBytes: sum(({ promisedBytes }) => promisedBytes),
    }
  })
  return holders.sort((a, b) => b.committedBytes - a.committedBytes)
}
