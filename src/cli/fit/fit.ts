import { roomOf } from '../../agent-core/api/fit/fit-decision.ts'
import { fitOf } from '../../agent-core/api/fit/fit-of.ts'
import { estimator, type ServingWish } from '../../agent-core/api/fit/sized-model.ts'
import { MlxFolderError } from '../../agent-core/memory/estimate/mlx-folder.ts'
import { ModelError } from '../../agent-core/models/errors.ts'
import { GgufError } from '../../agent-core/models/gguf/gguf.ts'
import { PlatformError } from '../../agent-core/platform/platform.ts'
import { LlamaServerDialects } from '../../agent-core/runtimes/llama-server-dialect.ts'
import { ProgramError } from '../../agent-core/util/ask-program.ts'
import { refKey } from '../../agent-core/util/object-key.ts'
import { cleanText } from '../../contract/clean-text.ts'
import { withAgent } from '../agent-session.ts'
import { type CliIo, exitCodes, usesUnicode } from '../io.ts'
import { fitByAgent } from './fit-by-agent.ts'
import { environmentOf, machineToFit, type Sized } from './fit-machine.ts'
import { findModel } from './fit-model.ts'
import { type FitAnswer, renderFit } from './fit-table.ts'

export interface FitOptions {
  readonly json: boolean
  /** Tokens. */
  readonly context?: number | undefined
  readonly slots?: number | undefined
  /** One cache type, or those of keys and values with a comma between. */
  readonly kv?: string | undefined
  /** Of the cluster: its token opens the source. */
  readonly sourceSecret?: string | undefined
  readonly namespace?: string | undefined
  /** Absent = where the agent keeps models, or would. */
  readonly modelStore?: string | undefined
  readonly stateDir: string
}

/** Prints whether the model fits on this machine, beside what the agent runs; answers the exit code. Throws VerbError. */
export async function fit(given: string, options: FitOptions, io: CliIo): Promise<number> {
  const { sourceSecret, stateDir } = options
  if (sourceSecret !== undefined) {
    return withAgent({ io, stateDir }, async (agent) =>
      told(await fitByAgent({ ...options, source: given, sourceSecret }, agent), options, io),
    )
  }
  try {
    return told(await fitHere(given, options, io), options, io)
  } catch (error) {
    if (!isSaid(error)) throw error
    io.stderr.write(`metal-agent: ${cleanText(error.message)}\n`)
    return exitCodes.failed
  }
}

function told({ estimate, decision, ways, machine }: Sized, { json }: FitOptions, io: CliIo): number {
  const { holders } = machine
  const answer: FitAnswer = {
    items: estimate.items,
    total: estimate.total,
    budget: machine.budgetBytes,
    available: machine.availableBytes,
    from: machine.from,
    held: holders.map((holder) => ({ service: refKey(holder), bytes: holder.committedBytes })),
    promised: roomOf(machine).promisedBytes,
    fits: decision.kind === 'fits',
    ...(decision.kind === 'whenStopped' && { fitsWhenStopped: decision.stop.map(refKey) }),
    waysToFit: ways,
  }
  io.stdout.write(
    json
      ? `${JSON.stringify(answer, null, 2)}\n`
      : renderFit(answer, { estimate, decision, machine, unicode: usesUnicode(io) }),
  )
  return answer.fits ? exitCodes.done : exitCodes.doesNotFit
}

/** Errors whose message is a sentence for people. */
const isSaid = (error: unknown): error is Error =>
  [ModelError, GgufError, MlxFolderError, PlatformError, ProgramError, RangeError].some((kind) => error instanceof kind)

async function fitHere(given: string, options: FitOptions, io: CliIo): Promise<Sized> {
  const machine = await machineToFit({ io, stateDir: options.stateDir })
  const model = await findModel(given, {
    io,
    modelStore: options.modelStore ?? machine.modelStore,
    signal: new AbortController().signal,
  })
  const { llamaServer, metal } = machine
  const dialect =
    llamaServer === undefined ? undefined : await new LlamaServerDialects().of(llamaServer, environmentOf(io))
  const wish = wishOf(options)
  return { ...fitOf(estimator(model, wish, { metal, dialect }), wish, machine), machine }
}

function wishOf({ context, slots, kv }: FitOptions): ServingWish {
  const [keys, values = keys] = kv?.split(',') ?? []
  return {
    contextTokens: context,
    slots,
    ...(keys !== undefined && values !== undefined && { cacheTypes: [keys, values] }),
  }
}
