import type { InferenceServiceSpec } from '../kube/resources.ts'
import { overrideCount } from '../memory/estimate/server-arguments.ts'
import { formatCount } from '../../contract/format.ts'
import type { KnownCause } from '../servers/crash-cause.ts'
import { askProgram } from '../util/ask-program.ts'
import { findExecutable, type Executable, type ExecutableSearch } from '../util/find-executable.ts'
import { textProblem, withLocalFiles } from './argument-policy.ts'
import type { Dialect } from './dialect.ts'
import { flagsIn, llamaServerFlags } from './llama-server-flags.ts'
import type { CommandInput, ProcessRuntime } from './runtime.ts'

const program = {
  name: 'llama-server',
  flag: '--llama-server',
  notInstalled: {
    darwin:
      'llama-server is not installed here: install it with "brew install llama.cpp", or give its path with --llama-server.',
    linux:
      'llama-server is not on PATH: install llama.cpp, with "brew install llama.cpp" or as a package, or give its path with --llama-server.',
  },
}

export const findLlamaServer = (search: ExecutableSearch): Promise<Executable> => findExecutable(program, search)

const devicesLimitMs = 10_000

/**
 * What `--list-devices` prints, which includes how much GPU memory Metal recommends to use at most.
 * Throws ProgramError.
 */
export async function listDevices(llamaServer: string, env: Readonly<Record<string, string>>): Promise<string> {
  const { stdout, stderr } = await askProgram({
    command: llamaServer,
    args: ['--list-devices'],
    env,
    timeLimitMs: devicesLimitMs,
  })
  return `${stdout}\n${stderr}`
}

/** Every llama.cpp up to 2026, and what LLMKube documents. */
export const classicDialect: Dialect = {
  lockMemory: ['--mlock'],
  boundsPromptCache: false,
  reserve: [],
  flags: undefined,
}

/** Reads a dialect out of what `llama-server --help` prints: later builds refuse to start with `--mlock`. */
export function dialectFrom(help: string): Dialect {
  const flags = flagsIn(help)
  return {
    lockMemory: memoryLock(help, flags),
    boundsPromptCache: flags.has('--cache-ram'),
    reserve: [
      // No origin at all: what comes after the flag is a list.
      ...(flags.has('--cors-origins') ? ['--cors-origins', ''] : []),
      ...(flags.has('--no-slots') ? ['--no-slots'] : []),
    ],
    // A script before it may answer anything, which says nothing of what the server knows.
    flags: flags.has('--model') ? flags : undefined,
    ...(!flags.has('--model') && /^[\t ]{1,20}serve\b/m.test(help) && { problem: ofCommands }),
  }
}

/** Of the program `llama`, which has llama-server as one of its commands since llama.cpp 11434 (2026). */
const ofCommands =
  'is the program llama, whose server is "llama serve": give the path of llama-server, or of a script that runs llama serve "$@", with --llama-server.'

function memoryLock(help: string, flags: ReadonlySet<string>): readonly string[] {
  if (flags.has('--mlock')) return classicDialect.lockMemory
  if (flags.has('--load-mode')) return ['--load-mode', help.includes('mmap+mlock') ? 'mmap+mlock' : 'mlock']
  return []
}

/** The fields of `InferenceService.spec` that reach llama-server. */
export type LlamaServerSpec = Partial<InferenceServiceSpec>

export interface LlamaServerInput extends Pick<
  CommandInput,
  'modelPath' | 'host' | 'port' | 'alias' | 'performanceCores' | 'draft'
> {
  readonly spec: LlamaServerSpec
  /** `Model.spec.hardware.gpu.layers`; absent or 0 = all of them, negative is passed on. */
  readonly gpuLayers?: number | undefined
  /** Flag dialect of the binary that is started; absent = the classic one, as for a digest. */
  readonly dialect?: Dialect
}

/** More layers than any model has: all of them on the GPU. */
const allLayers = 99
const defaultContextSize = 2048

/** The longest conversation, in tokens. `usual`: where the spec does not say, as LLMKube's agent has it. */
export const contextSizeOf = (
  { contextSize }: Pick<LlamaServerSpec, 'contextSize'>,
  usual = defaultContextSize,
): number => positive(contextSize) ?? usual

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
  const { spec, modelPath, host = '0.0.0.0', port, alias, gpuLayers, performanceCores, draft } = input
  const { dialect = classicDialect } = input
  const extraArgs = spec.extraArgs ?? []
  const unlessGiven = (flag: string, ...values: string[]) => (isGiven(extraArgs, flag) ? [] : [flag, ...values])

  return [
    ...['--model', modelPath],
    ...['--host', host],
    ...['--port', String(port)],
    ...['--n-gpu-layers', String(gpuLayers === undefined || gpuLayers === 0 ? allLayers : gpuLayers)],
    ...['--ctx-size', String(contextSizeOf(spec))],
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
    ...speculation(spec, draft),
    ...(alias === undefined || isGiven(extraArgs, '-a') ? [] : unlessGiven('--alias', alias)),
    ...extraArgs,
  ]
}

function ropeScaling(rope: LlamaServerSpec['ropeScaling']): string[] {
  if (rope === undefined) return []
  return [
    ...['--rope-scaling', rope.type],
    ...text('--rope-scale', rope.factor),
    ...numeric('--yarn-orig-ctx', positive(rope.originalContext)),
  ]
}

/** How llama-server is told to decode speculatively. */
interface Speculation {
  /** In the words of `--spec-type`. */
  readonly type: string
  /** The weights that have to be here; absent where it drafts without any, or `extraArgs` name them. */
  readonly draft?: { readonly model: string } | { readonly file: string }
}

/** Drafts from what was said before, with no model beside the one that is served. */
const draftsAlone = /^ngram-[a-z\d-]+$/
const draftTypes: ReadonlyMap<string, string> = new Map([
  ...[['mtp', 'draft-mtp'] as const, ['draft', 'draft-simple'] as const],
  ...['simple', 'eagle3', 'mtp', 'dflash', 'dspark'].map((kind) => [`draft-${kind}`, `draft-${kind}`] as const),
])
/** It may draft with layers of the served model itself. */
const needsNoWeights = 'draft-mtp'

/** Whether the spec names a type that needs draft weights, and none. */
export const lacksDraftWeights = ({
  speculativeDecoding: { type = '', draftModel, draftModelRef } = {},
}: LlamaServerSpec) => draftTypes.has(type) && draftTypes.get(type) !== needsNoWeights && !draftModel && !draftModelRef

export const saysSpeculation = ({ extraArgs = [] }: LlamaServerSpec): boolean => isGiven(extraArgs, '--spec-type')

/** Undefined where llama-server is not told to draft by the field, or by `extraArgs` otherwise. */
export function speculationOf(spec: LlamaServerSpec): Speculation | undefined {
  const { type: asked = '', draftModel: file = '', draftModelRef: model = '' } = spec.speculativeDecoding ?? {}
  if (saysSpeculation(spec)) return undefined
  if (draftsAlone.test(asked)) return { type: asked }
  const type = draftTypes.get(asked)
  if (type === undefined) return undefined
  if (isGiven(spec.extraArgs ?? [], '--model-draft', '-md', '--spec-draft-model')) return { type }
  if (model !== '') return { type, draft: { model } }
  if (file !== '') return { type, draft: { file } }
  return type === needsNoWeights ? { type } : undefined
}

function speculation(spec: LlamaServerSpec, draft: string | undefined): string[] {
  const { type } = speculationOf(spec) ?? {}
  if (type === undefined) return []
  const { nDraftMax, pMin } = spec.speculativeDecoding ?? {}
  return [
    ...['--spec-type', type],
    ...text('--model-draft', draft),
    ...numeric('--spec-draft-n-max', nDraftMax),
    ...numeric('--spec-draft-p-min', pMin),
  ]
}

function speculationProblem({ speculativeDecoding }: InferenceServiceSpec): string | undefined {
  const { draftModel, draftModelRef } = speculativeDecoding ?? {}
  if (!draftModel || !draftModelRef) return undefined
  return 'spec.speculativeDecoding is refused: it names draft weights twice, by draftModel and by draftModelRef. Remove one of them.'
}

function reasoning({ reasoningBudget, reasoningBudgetMessage }: LlamaServerSpec): string[] {
  const budget = numeric('--reasoning-budget', positive(reasoningBudget))
  return budget.length === 0 ? [] : [...budget, ...text('--reasoning-budget-message', reasoningBudgetMessage)]
}

const isGiven = (extraArgs: readonly string[], ...flags: readonly string[]): boolean =>
  extraArgs.some((argument) => flags.some((flag) => argument === flag || argument.startsWith(`${flag}=`)))

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

/** Each is compared with every tensor of the model, by the agent that sizes it up and by llama-server. */
const maxOverrides = 256

function overridesProblem({ tensorOverrides, extraArgs }: InferenceServiceSpec): string | undefined {
  const count = overrideCount([...tensorOverrides.flatMap((text) => ['--override-tensor', text]), ...extraArgs])
  if (count <= maxOverrides) return undefined
  return `spec.tensorOverrides is refused: with those of spec.extraArgs it holds ${formatCount(count)} different overrides, and at most ${maxOverrides} are taken. Remove some: one pattern can name many tensors.`
}

/** Texts that become the value of a flag must not look like another. */
function textFieldProblem(spec: InferenceServiceSpec): string | undefined {
  const { cacheTypeK, cacheTypeV, cacheTypeCustomK, cacheTypeCustomV, reasoningBudgetMessage } = spec
  const texts = { cacheTypeK, cacheTypeV, cacheTypeCustomK, cacheTypeCustomV, reasoningBudgetMessage }
  const lists = { metadataOverrides: spec.metadataOverrides, tensorOverrides: spec.tensorOverrides }
  const values = [
    ...Object.entries(texts).map(([name, text]) => [name, text ?? ''] as const),
    ...Object.entries(lists).flatMap(([name, all]) => all.map((text) => [name, text] as const)),
  ]
  for (const [name, text] of values) {
    const problem = textProblem(text)
    if (problem !== undefined) return `spec.${name} is refused: ${problem}. Correct it.`
  }
  return undefined
}

/** In the words of llama.cpp 11434 (2026) and of the builds before. */
const causes: readonly KnownCause[] = [
  {
    says: /unknown speculative type/i,
    advice: ({ upgrade }) =>
      `This llama-server does not know that type of speculative decoding: ${upgrade}, or correct spec.speculativeDecoding.`,
  },
  {
    says: /failed to create MTP context/i,
    advice: () =>
      'The model has no layers to draft with (MTP): name draft weights in spec.speculativeDecoding, or remove it.',
  },
  {
    says: /^error: (invalid|unknown) argument|error while handling argument/i,
    advice: () =>
      'This llama-server does not accept that argument or its value: correct spec.extraArgs, or install another version of llama.cpp.',
  },
  {
    says: /unknown model architecture|unknown (projector|pre-tokenizer) type/i,
    advice: ({ upgrade }) => `This llama-server does not know this kind of model: ${upgrade}, or choose another model.`,
  },
  {
    says: /invalid magic characters: '<[!a-z?]/i,
    advice: () => 'The model file is a web page: correct spec.source of the Model, which must name the file itself.',
  },
  {
    says: /invalid magic|bad magic|failed to read magic/i,
    advice: () => 'The model file is not a GGUF file: correct spec.source of the Model, or convert the model to GGUF.',
  },
  {
    says: /data is not within the file bounds|corrupted or incomplete|failed to read header|only supports up to version|unexpectedly reached end of file/i,
    advice: ({ upgrade }) =>
      `The model file is damaged, cut short, or newer than this llama-server: fetch it again, or ${upgrade}.`,
  },
  {
    says: /tensor '[^']*' not found|missing tensor|wrong number of tensors|has wrong shape/i,
    advice: ({ upgrade }) =>
      `The model file was made for another version of llama.cpp: ${upgrade}, or fetch the file again from its author.`,
  },
  {
    says: /failed to load draft model/i,
    advice: () =>
      'The draft model could not be loaded: name one that was made for this model in spec.speculativeDecoding, or remove it.',
  },
]

export const llamaServerRuntime: ProcessRuntime = {
  kind: 'process',
  name: 'llama-server',
  aliases: ['llamacpp'],
  formats: 'any',
  programSetting: 'llamaServer',
  program,
  flags: { table: llamaServerFlags, program: 'llama-server', product: 'llama.cpp' },
  version: { args: ['--version'], shownBy: /^version: *(\S.*)$/m },
  helpArgs: ['--help'],
  dialectFrom,
  usualDialect: classicDialect,
  argv: ({ spec, model, modelPath, host, port, performanceCores, alias, mmproj, dialect, promptCacheMiB, draft }) => [
    ...llamaServerArgv({
      ...{ spec, modelPath, host, port, performanceCores, alias, draft, gpuLayers: model.hardware?.gpu?.layers },
      ...(dialect && { dialect }),
    }),
    ...(mmproj === undefined ? [] : ['--mmproj', mmproj]),
    ...(promptCacheMiB === undefined ? [] : ['--cache-ram', String(promptCacheMiB)]),
  ],
  localCommand: (argv) => Promise.resolve(withLocalFiles(argv, llamaServerFlags)),
  environment: {},
  advice: { product: 'llama.cpp', formula: 'llama.cpp', causes },
  modelProblem: () => Promise.resolve(undefined),
  fieldProblem: (spec) => textFieldProblem(spec) ?? overridesProblem(spec) ?? speculationProblem(spec),
  // Every request but a health check counts as use, and wakes it up.
  sleepsWhenIdle: ({ extraArgs }) => extraArgs.some((argument) => argument.split('=')[0] === '--sleep-idle-seconds'),
  sizing: 'gguf',
  isBehindGateway: false,
}
