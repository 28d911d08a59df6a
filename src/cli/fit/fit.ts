import type { Estimate } from '../../agent-core/memory/estimate/items.ts'
import { estimateLlamaServer } from '../../agent-core/memory/estimate/llama-server.ts'
import { MlxFolderError } from '../../agent-core/memory/estimate/mlx-folder.ts'
import { estimateMlx } from '../../agent-core/memory/estimate/mlx.ts'
import { type ServerChange, waysToFit } from '../../agent-core/memory/ways-to-fit.ts'
import { ModelError } from '../../agent-core/models/errors.ts'
import { GgufError } from '../../agent-core/models/gguf/gguf-error.ts'
import { PlatformError } from '../../agent-core/platform/platform.ts'
import { type LlamaServerDialect, LlamaServerDialects } from '../../agent-core/runtimes/llama-server-dialect.ts'
import { llamaServerArgv } from '../../agent-core/runtimes/llama-server.ts'
import { ProgramError } from '../../agent-core/support/ask-program.ts'
import { refKey } from '../../agent-core/support/object-key.ts'
import { cleanText } from '../../contract/clean-text.ts'
import { type CliIo, exitCodes, usesUnicode } from '../io.ts'
import { decideFit, type FitDecision, roomOf } from './fit-decision.ts'
import { environmentOf, type FitMachine, machineToFit } from './fit-machine.ts'
import { findModel, type FoundModel } from './fit-model.ts'
import { type FitAnswer, renderFit } from './fit-table.ts'

export interface FitOptions {
  readonly json: boolean
  /** Tokens. */
  readonly context?: number | undefined
  readonly slots?: number | undefined
  /** One cache type, or those of keys and values with a comma between. */
  readonly kv?: string | undefined
  /** Absent = where the agent keeps models, or would. */
  readonly modelStore?: string | undefined
  readonly stateDir: string
}

/** Prints whether the model fits on this machine, beside what the agent runs; answers the exit code. Throws VerbError. */
export async function fit(given: string, options: FitOptions, io: CliIo): Promise<number> {
  try {
    const machine = await machineToFit({ io, stateDir: options.stateDir })
    const model = await findModel(given, {
      io,
      modelStore: options.modelStore ?? machine.modelStore,
      signal: new AbortController().signal,
    })
    const { answer, estimate, decision } = await answerFor(model, options, { io, machine })
    io.stdout.write(
      options.json
        ? `${JSON.stringify(answer, null, 2)}\n`
        : renderFit(answer, { estimate, decision, machine, unicode: usesUnicode(io) }),
    )
    return answer.fits ? exitCodes.done : exitCodes.doesNotFit
  } catch (error) {
    if (!isSaid(error)) throw error
    io.stderr.write(`metal-agent: ${cleanText(error.message)}\n`)
    return exitCodes.failed
  }
}

/** Errors whose message is a sentence for people. */
const isSaid = (error: unknown): error is Error =>
  [ModelError, GgufError, MlxFolderError, PlatformError, ProgramError, RangeError].some((kind) => error instanceof kind)

async function answerFor(
  model: FoundModel,
  options: FitOptions,
  { io, machine }: { readonly io: CliIo; readonly machine: FitMachine },
): Promise<{ readonly answer: FitAnswer; readonly estimate: Estimate; readonly decision: FitDecision }> {
  const { llamaServer, metal, holders } = machine
  const dialect =
    llamaServer === undefined ? undefined : await new LlamaServerDialects().of(llamaServer, environmentOf(io))
  const estimateWith = estimator(model, options, { metal, dialect })
  const estimate = estimateWith({})
  const { total, items } = estimate
  const room = roomOf(machine)
  const decision = decideFit(total, machine)
  const ways = waysToFit({
    needBytes: total,
    room,
    priority: 'normal',
    ...(estimate.contextTokens !== undefined && { contextTokens: options.context ?? estimate.contextTokens }),
    ...(options.slots !== undefined && { slots: options.slots }),
    estimateAt: (change) => estimateWith(change).total,
    // The person who asks decides which servers may be stopped, not their priority: see `decideFit`.
    servers: [],
    apps: machine.applications,
    totalBytes: machine.totalBytes,
    ...(machine.gpuLimitBytes !== undefined && { gpuLimitBytes: machine.gpuLimitBytes }),
    platform: machine.platform,
  })
  const answer: FitAnswer = {
    items,
    total,
    budget: machine.budgetBytes,
    available: machine.availableBytes,
    from: machine.from,
    held: holders.map((holder) => ({ service: refKey(holder), bytes: holder.committedBytes })),
    promised: room.promisedBytes,
    fits: decision.kind === 'fits',
    ...(decision.kind === 'whenStopped' && { fitsWhenStopped: decision.stop.map(refKey) }),
    waysToFit: ways,
  }
  return { answer, estimate, decision }
}

/** The estimate with a change applied, as the agent would start the server. */
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
