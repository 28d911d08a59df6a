import { resolveBudget } from '../../agent-core/memory/budget.ts'
import type { Estimate } from '../../agent-core/memory/estimate/items.ts'
import { estimateLlamaServer } from '../../agent-core/memory/estimate/llama-server.ts'
import { MlxFolderError } from '../../agent-core/memory/estimate/mlx-folder.ts'
import { estimateMlx } from '../../agent-core/memory/estimate/mlx.ts'
import { parseRecommendedWorkingSet } from '../../agent-core/memory/gpu-limit.ts'
import { type ServerChange, waysToFit } from '../../agent-core/memory/ways-to-fit.ts'
import { ModelError } from '../../agent-core/models/errors.ts'
import { GgufError } from '../../agent-core/models/gguf/gguf-error.ts'
import { hostPlatform } from '../../agent-core/platform/host.ts'
import { type Platform, PlatformError } from '../../agent-core/platform/platform.ts'
import { findLlamaServer } from '../../agent-core/runtimes/binary.ts'
import { devicesAsTold } from '../../agent-core/runtimes/devices.ts'
import { type LlamaServerDialect, LlamaServerDialects } from '../../agent-core/runtimes/llama-server-dialect.ts'
import { llamaServerArgv } from '../../agent-core/runtimes/llama-server.ts'
import { ProgramError } from '../../agent-core/support/ask-program.ts'
import { VerbError } from '../agent-session.ts'
import { findModel, type FoundModel } from './fit-model.ts'
import { type FitAnswer, renderFit } from './fit-table.ts'
import { type CliIo, exitCodes, usesUnicode } from '../io.ts'

export interface FitOptions {
  readonly json: boolean
  /** Tokens. */
  readonly context?: number | undefined
  readonly slots?: number | undefined
  /** One cache type, or those of keys and values with a comma between. */
  readonly kv?: string | undefined
  readonly modelStore: string
}

/** Prints whether the model fits on this machine; answers the exit code. Throws VerbError. */
export async function fit(given: string, options: FitOptions, io: CliIo): Promise<number> {
  try {
    const model = await findModel(given, {
      io,
      modelStore: options.modelStore,
      signal: new AbortController().signal,
    })
    const { answer, estimate, budgetFrom } = await answerFor(model, options, io)
    const { items, total, budget, available, fits, waysToFit: ways } = answer
    io.stdout.write(
      options.json
        ? `${JSON.stringify({ items, total, budget, available, fits, waysToFit: ways }, null, 2)}\n`
        : renderFit(answer, { estimate, budgetFrom, unicode: usesUnicode(io) }),
    )
    return fits ? exitCodes.done : exitCodes.doesNotFit
  } catch (error) {
    if (!isSaid(error)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    return exitCodes.failed
  }
}

/** Errors whose message is a sentence for people. */
const isSaid = (error: unknown): error is Error =>
  [ModelError, GgufError, MlxFolderError, PlatformError, ProgramError, RangeError].some((kind) => error instanceof kind)

async function answerFor(model: FoundModel, options: FitOptions, io: CliIo) {
  const platform = hostPlatform(io.platform)
  const [memory, apps, { available: metal }, server] = await Promise.all([
    platform.memory(),
    platform.biggestProcesses(8),
    platform.metal(),
    installedServer(platform, io),
  ])
  const estimateWith = estimator(model, options, { metal, dialect: server.dialect })
  const estimate = estimateWith({})

  const gpuLimitBytes = (await platform.gpuMemoryLimit()) ?? server.gpuLimitBytes
  const gpuLimit = gpuLimitBytes === undefined ? {} : { gpuLimitBytes }
  const result = resolveBudget({ totalBytes: memory.totalBytes, ...gpuLimit, platform: platform.name })
  if (!result.ok) throw new VerbError(`${result.message}.`)
  const { budget } = result

  const { total, items } = estimate
  const available = memory.availableBytes
  const ways = waysToFit({
    needBytes: total,
    room: { budgetBytes: budget.bytes, committedBytes: 0, availableBytes: available, promisedBytes: 0 },
    priority: 'normal',
    ...(estimate.contextTokens !== undefined && { contextTokens: options.context ?? estimate.contextTokens }),
    ...(options.slots !== undefined && { slots: options.slots }),
    estimateAt: (change) => estimateWith(change).total,
    servers: [],
    apps,
    totalBytes: memory.totalBytes,
    ...gpuLimit,
    platform: platform.name,
  })
  const fits = total <= budget.bytes && total <= available
  const answer: FitAnswer = { items, total, budget: budget.bytes, available, fits, waysToFit: ways }
  return { answer, estimate, budgetFrom: budget.how }
}

/** What it would take with a change, as the agent would start it. */
function estimator(
  model: FoundModel,
  { context, slots, kv }: FitOptions,
  { metal, dialect }: { readonly metal: boolean; readonly dialect: LlamaServerDialect | undefined },
): (change: ServerChange) => Estimate {
  if (model.kind === 'mlx') {
    return (change) => {
      const contextTokens = change.contextTokens ?? context
      return estimateMlx({
        ...model,
        ...(contextTokens !== undefined && { contextTokens }),
        slots: change.slots ?? slots ?? 1,
      })
    }
  }
  const [keys, values = keys] = kv?.split(',') ?? []
  return (change) =>
    estimateLlamaServer({
      ...model,
      argv: llamaServerArgv({
        spec: {
          contextSize: change.contextTokens ?? context,
          parallelSlots: change.slots ?? slots,
          cacheTypeK: change.kvType ?? keys,
          cacheTypeV: change.kvType ?? values,
        },
        modelPath: 'model.gguf',
        port: 0,
        ...(dialect !== undefined && { dialect }),
      }),
      host: { metal },
    })
}

interface InstalledServer {
  readonly dialect?: LlamaServerDialect
  readonly gpuLimitBytes?: number
}

/** What the llama-server of this machine tells of itself and of the GPU; nothing where there is none, which is no obstacle here. */
async function installedServer(platform: Platform, io: CliIo): Promise<InstalledServer> {
  const found = await findLlamaServer({ system: platform.name, path: io.env['PATH'] })
  if (found.kind === 'missing') return {}
  const env = { PATH: io.env['PATH'] ?? '', HOME: io.homeDir }
  const dialect = await new LlamaServerDialects().of(found.path, env)
  if (platform.name !== 'darwin') return { dialect }
  const gpuLimitBytes = parseRecommendedWorkingSet(await devicesAsTold(found.path, env))
  return { dialect, ...(gpuLimitBytes !== undefined && { gpuLimitBytes }) }
}
