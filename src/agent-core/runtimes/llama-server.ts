import { classicDialect, type LlamaServerDialect } from './llama-server-binary.ts'

/** The fields of `InferenceService.spec` that reach llama-server, named as in the CRD. */
export interface LlamaServerSpec {
  readonly contextSize?: number | undefined
  readonly ropeScaling?:
    | {
        readonly type: string
        readonly factor?: string | undefined
        readonly originalContext?: number | undefined
      }
    | undefined
  readonly parallelSlots?: number | undefined
  readonly flashAttention?: boolean | undefined
  readonly jinja?: boolean | undefined
  readonly cacheTypeK?: string | undefined
  readonly cacheTypeV?: string | undefined
  readonly cacheTypeCustomK?: string | undefined
  readonly cacheTypeCustomV?: string | undefined
  readonly moeCPUOffload?: boolean | undefined
  readonly moeCPULayers?: number | undefined
  readonly noKvOffload?: boolean | undefined
  readonly noWarmup?: boolean | undefined
  readonly reasoningBudget?: number | undefined
  readonly reasoningBudgetMessage?: string | undefined
  readonly metadataOverrides?: readonly string[] | undefined
  readonly tensorOverrides?: readonly string[] | undefined
  readonly batchSize?: number | undefined
  readonly uBatchSize?: number | undefined
  readonly mode?: 'chat' | 'embedding' | 'rerank' | undefined
  readonly extraArgs?: readonly string[] | undefined
}

export interface LlamaServerInput {
  readonly spec: LlamaServerSpec
  /** Absolute path of the GGUF file. */
  readonly modelPath: string
  /** Where it listens; absent = everywhere, as for a digest. */
  readonly host?: string | undefined
  readonly port: number
  /** The model's name towards clients, as LLMKube's agent passes it; absent = llama-server's default, the path. */
  readonly alias?: string | undefined
  /** `Model.spec.hardware.gpu.layers`; absent or 0 = all of them, negative is passed on. */
  readonly gpuLayers?: number | undefined
  /** Absent where cores do not come in two kinds. */
  readonly performanceCores?: number | undefined
  /** Flag dialect of the binary that is started; absent = the classic one, as for a digest. */
  readonly dialect?: LlamaServerDialect
}

/** More layers than any model has: all of them on the GPU. */
const allLayers = 99
const defaultContextSize = 2048
const defaultBatchSize = 2048

/**
 * The arguments LLMKube's Go agent gives llama-server, in its order: people compare them with `ps`. `flashAttention: false` leaves the
 * choice to llama-server and a reasoning budget of 0 is not passed, as there; `extraArgs` come last and win. Only memory locking and what
 * keeps others out follow what the installed llama-server understands.
 *
 * Without `dialect`, `host` and `alias` the digest that decides about restarts is taken over them, so that is what object and person ask for. An
 * argument that an update adds belongs beside `alias`: in the digest it would restart every server, as would another form of an old one.
 */
export function llamaServerArgv(input: LlamaServerInput): string[] {
  const { spec, modelPath, host = '0.0.0.0', port, alias, gpuLayers, performanceCores } = input
  const { dialect = classicDialect } = input
  const extraArgs = spec.extraArgs ?? []
  const given = (flag: string) => extraArgs.some((argument) => argument === flag || argument.startsWith(`${flag}=`))
  const unlessGiven = (flag: string, ...values: string[]) => (given(flag) ? [] : [flag, ...values])

  return [
    ...['--model', modelPath],
    ...['--host', host],
    ...['--port', String(port)],
    ...['--n-gpu-layers', String(gpuLayers === undefined || gpuLayers === 0 ? allLayers : gpuLayers)],
    ...['--ctx-size', String(positive(spec.contextSize) ?? defaultContextSize)],
    ...unlessGiven('--metrics'),
    ...ropeScaling(spec.ropeScaling),
    ...numeric('--parallel', above(1, spec.parallelSlots)),
    ...((spec.flashAttention ?? true) ? ['--flash-attn', 'on'] : []),
    ...dialect.lockMemory,
    ...dialect.reserve,
    ...text('--cache-type-k', spec.cacheTypeCustomK, spec.cacheTypeK),
    ...text('--cache-type-v', spec.cacheTypeCustomV, spec.cacheTypeV),
    ...flag('--cpu-moe', spec.moeCPUOffload),
    ...numeric('--n-cpu-moe', positive(spec.moeCPULayers)),
    ...flag('--no-kv-offload', spec.noKvOffload),
    ...each('--override-tensor', spec.tensorOverrides),
    ...each('--override-kv', spec.metadataOverrides),
    ...numeric('--threads', positive(performanceCores)),
    ...['--batch-size', String(positive(spec.batchSize) ?? defaultBatchSize)],
    ...numeric('--ubatch-size', positive(spec.uBatchSize)),
    ...flag('--no-warmup', spec.noWarmup),
    ...reasoning(spec),
    ...flag('--jinja', spec.jinja),
    ...(spec.mode === 'rerank' ? unlessGiven('--reranking') : []),
    ...(spec.mode === 'rerank' || spec.mode === 'embedding'
      ? [
          ...unlessGiven('--embedding'),
          ...unlessGiven('--pooling', spec.mode === 'rerank' ? 'rank' : 'last'),
          ...unlessGiven('--cache-ram', '0'),
        ]
      : []),
    ...(alias === undefined || given('-a') ? [] : unlessGiven('--alias', alias)),
    ...extraArgs,
  ]
}

function ropeScaling(rope: LlamaServerSpec['ropeScaling']): string[] {
  if (rope === undefined || rope.type === '') return []
  return [
    ...['--rope-scaling', rope.type],
    ...text('--rope-scale', rope.factor),
    ...numeric('--yarn-orig-ctx', positive(rope.originalContext)),
  ]
}

function reasoning({ reasoningBudget, reasoningBudgetMessage }: LlamaServerSpec): string[] {
  const budget = numeric('--reasoning-budget', positive(reasoningBudget))
  return budget.length === 0 ? [] : [...budget, ...text('--reasoning-budget-message', reasoningBudgetMessage)]
}

const above = (bound: number, value: number | undefined) => (value !== undefined && value > bound ? value : undefined)
const positive = (value: number | undefined) => above(0, value)
const numeric = (name: string, value: number | undefined) => (value === undefined ? [] : [name, String(value)])
const flag = (name: string, on: boolean | undefined) => (on === true ? [name] : [])
const each = (name: string, values: readonly string[] | undefined) => (values ?? []).flatMap((value) => [name, value])

/** The first value that is not empty. */
function text(name: string, ...values: (string | undefined)[]): string[] {
  const value = values.find((candidate) => candidate !== undefined && candidate !== '')
  return value === undefined ? [] : [name, value]
}
