import { LinkError } from '../../contract/client.ts'
import type { SizingView } from '../../contract/memory.ts'
import type { FitDecision } from '../../agent-core/api/fit/fit-decision.ts'
import { resolveBudget } from '../../agent-core/memory/budget.ts'
import type { Estimate } from '../../agent-core/memory/estimate/items.ts'
import { parseRecommendedWorkingSet } from '../../agent-core/memory/gpu-limit.ts'
import { defaultModelStore } from '../../agent-core/models/default-store.ts'
import { hostPlatform } from '../../agent-core/platform/host.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { findLlamaServer } from '../../agent-core/runtimes/binary.ts'
import { devicesAsTold } from '../../agent-core/runtimes/devices.ts'
import { type AgentSessionOptions, connect, VerbError } from '../agent-session.ts'
import type { CliIo } from '../io.ts'

/** The figures that a model is sized with, and where they come from. */
export interface FitMachine extends SizingView {
  readonly from: 'agent' | 'machine'
  /** One sentence or two that say so. */
  readonly fromMessage: string
}

/** A model with what it needs, and whether that is there. */
export interface Sized {
  readonly estimate: Estimate
  readonly decision: FitDecision
  readonly ways: readonly { readonly sentence: string }[]
  readonly machine: FitMachine
}

/**
 * The figures, settings and running servers of the state folder's agent; this command's own view of the machine where no agent answers.
 * Throws VerbError.
 */
export async function machineToFit(session: AgentSessionOptions): Promise<FitMachine> {
  const asked = await askAgent(session).catch((error: unknown) => {
    if (error instanceof LinkError) return error
    throw error
  })
  if (!(asked instanceof LinkError)) return asAgentSizes(asked)
  return {
    ...(await lookAt(session.io)),
    from: 'machine',
    fromMessage: `Sized with this machine's own figures and default settings. ${asked.message}`,
  }
}

export const asAgentSizes = (sizing: SizingView): FitMachine => ({
  ...sizing,
  from: 'agent',
  fromMessage: 'Sized with the figures and settings of the running agent.',
})

async function askAgent(session: AgentSessionOptions): Promise<SizingView> {
  await using agent = await connect(session)
  return await agent.query({ name: 'sizing' })
}

async function lookAt(io: CliIo): Promise<SizingView> {
  const platform = hostPlatform(io.platform)
  const [memory, applications, { available: metal }, binary] = await Promise.all([
    platform.memory(),
    platform.biggestProcesses(8),
    platform.metal(),
    findLlamaServer({ system: platform.name, path: io.env['PATH'] }),
  ])
  const llamaServer = binary.kind === 'found' ? binary.path : undefined
  const gpuLimitBytes = await gpuLimit(platform, llamaServer, io)
  const limit = gpuLimitBytes === undefined ? {} : { gpuLimitBytes }
  const result = resolveBudget({ totalBytes: memory.totalBytes, ...limit, platform: platform.name })
  if (!result.ok) throw new VerbError(`${result.message}.`)
  return {
    platform: platform.name,
    totalBytes: memory.totalBytes,
    availableBytes: memory.availableBytes,
    budgetBytes: result.budget.bytes,
    budgetHow: result.budget.how,
    ...limit,
    pressure: 'unknown',
    holders: [],
    waiting: [],
    applications: applications.map(({ name, bytes }) => ({ name, bytes })),
    metal,
    ...(llamaServer !== undefined && { llamaServer }),
    modelStore: defaultModelStore(io.platform, io.env, io.homeDir),
  }
}

/** Where the system does not say what the GPU may hold, llama-server may know. */
async function gpuLimit(platform: Platform, llamaServer: string | undefined, io: CliIo): Promise<number | undefined> {
  const set = await platform.gpuMemoryLimit()
  if (set !== undefined || platform.name !== 'darwin' || llamaServer === undefined) return set
  return parseRecommendedWorkingSet(await devicesAsTold(llamaServer, environmentOf(io)))
}

/** What a llama-server that is only asked something needs. */
export const environmentOf = ({ env, homeDir }: Pick<CliIo, 'env' | 'homeDir'>) => ({
  PATH: env['PATH'] ?? '',
  HOME: homeDir,
})
