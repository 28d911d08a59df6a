import type { InferenceServiceSpec } from '../kube/resources.ts'
import type { KnownCause } from '../servers/crash-cause.ts'
import type { Dialect } from './dialect.ts'
import { contextSizeOf } from './llama-server.ts'
import { allowed, code, ours, refused, type FlagTable } from './llama-server-flags.ts'
import { mlxCauses, mlxRow, pythonCauses, withRealFolder } from './mlx-folder.ts'
import { slotsOf } from './mlx-lm.ts'
import type { ProcessRuntime } from './runtime.ts'

/** The flags of vLLM that people use with it, with a judgement each. What is not listed is refused. */
const flags: FlagTable = new Map([
  ...allowed(
    'none',
    `--enable-auto-tool-choice --no-enable-auto-tool-choice --enable-reasoning --enable-prefix-caching --no-enable-prefix-caching
    --disable-log-requests --no-enable-log-requests --disable-log-stats --disable-uvicorn-access-log --return-tokens-as-token-ids`,
  ),
  ...allowed('number', '--seed --max-logprobs'),
  ...allowed(
    'text',
    `--served-model-name --tool-call-parser --reasoning-parser --chat-template-content-format
    --default-chat-template-kwargs --uvicorn-log-level --response-role`,
  ),

  ...ours(
    'the agent decides where the server listens',
    '--host --port --uds --data-parallel-rpc-port --api-server-count',
  ),
  ...ours('the agent gives the server the folder of the Model', '--model --tokenizer --hf-config-path'),
  ...ours('spec.parallelSlots says how many requests are answered at once', '--max-num-seqs'),
  ...ours('spec.contextSize says how long a conversation may be', '--max-model-len'),
  ...ours('spec.cacheTypeK says how the cache is kept', '--additional-config'),

  ...code(
    'it makes the server run Python code of others',
    `--trust-remote-code --tool-parser-plugin --reasoning-parser-plugin --logits-processors --middleware --worker-cls
    --worker-extension-cls --distributed-executor-backend --model-impl --load-format`,
  ),
  ...code('its file could hold any other argument', '--config'),

  ...refused(
    'it lets the server hand out or read files of this machine, or of other servers',
    `--allowed-local-media-path --allowed-media-domains --lora-modules --enable-lora --tool-server --download-dir --chat-template
    --ssl-keyfile --ssl-certfile --ssl-ca-certs --generation-config --enable-longctx --retrieval-endpoint --speculative-config`,
  ),
  ...refused(
    'its memory is not counted yet',
    '--dtype --kv-cache-dtype --gpu-memory-utilization --kv-cache-memory-bytes --max-num-batched-tokens',
  ),
  ...refused('clients inside the cluster do not know the key', '--api-key'),
  ...refused('requests reach the server at the paths that clients expect', '--root-path'),
  ...refused(
    'pages in a browser are kept away from the server',
    '--allowed-origins --allowed-methods --allowed-headers --allow-credentials',
  ),
  ...refused('the server would only print something and exit', '-h --help -v --version'),
])

/** Its own `--help` names no flags, and that of its server loads all of vLLM: each that was judged counts as one that it knows. */
const dialect: Dialect = {
  ...{ lockMemory: [], reserve: [], boundsPromptCache: false },
  flags: new Set(flags.keys()),
}

/** Up to 0.3.0 it serves a model of its own choice in place of the one that it is given, and up to 0.3.1 misreads some. */
const oldest = [0, 3, 2] as const

function isTooOld(version: string): boolean {
  const parts = version.split('.').map(Number)
  const at = oldest.findIndex((part, index) => parts[index] !== part)
  return at !== -1 && !((parts[at] ?? 0) > (oldest[at] ?? 0))
}

const versionLine = /^vllm-swift (\d+(?:\.\d+)*)/m

function dialectFrom(answer: string): Dialect {
  const version = versionLine.exec(answer)?.[1]
  if (version === undefined) return { ...dialect, problem: 'does not report its version. Install vllm-swift again.' }
  if (!isTooOld(version)) return dialect
  return {
    ...dialect,
    problem: `is version ${version}, which may serve a different model from the one it is given. Upgrade vllm-swift: ${oldest.join('.')} is the oldest that does not.`,
  }
}

/** The quantised caches of its back end, with the bits that go with each. */
const cacheBits: Readonly<Record<string, number>> = { turbo4v2: 4, turbo4: 4, turbo3: 3, turbo2: 2 }

function cacheScheme({ cacheTypeCustomK = '', cacheTypeK = '' }: InferenceServiceSpec): string[] {
  const scheme = cacheTypeCustomK === '' ? cacheTypeK : cacheTypeCustomK
  const bits = Object.hasOwn(cacheBits, scheme) ? cacheBits[scheme] : undefined
  return bits === undefined ? [] : ['--additional-config', JSON.stringify({ kv_bits: bits, kv_scheme: scheme })]
}

const namesModel = (args: readonly string[]): boolean =>
  args.some((argument) => argument.split('=')[0] === '--served-model-name')

const causes: readonly KnownCause[] = [
  {
    says: /max_model_len \(\d+\) is greater than|exceeds this model's max_position_embeddings/i,
    advice: () => 'The model was not made for conversations of that length: lower spec.contextSize.',
  },
  {
    says: /Python 3\.\d+(-3\.\d+|\+)? required/,
    advice: () => 'It finds no Python that it can use: install one, such as with "brew install python@3.12".',
  },
  {
    says: /No module named '?vllm'?/,
    advice: () => 'Its Python packages are not there: run "vllm-swift setup".',
  },
  {
    says: /Unable to load kernel/,
    advice: ({ upgrade }) => `This build lacks a part that the model needs: ${upgrade}.`,
  },
  ...mlxCauses,
  ...pythonCauses,
]

/**
 * vLLM with a back end for Metal: one model per process tree, of a launcher, an API server and the process that computes. vLLM fetches pictures
 * from wherever a request says, and behind the proxy that comes before most models that reason it listens at a second port, which
 * knows no key: it listens on loopback alone, and the gateway decides what a request may say.
 */
export const vllmSwiftRuntime: ProcessRuntime = {
  ...mlxRow,
  name: 'vllm-swift',
  programSetting: 'vllmSwift',
  program: {
    name: 'vllm-swift',
    flag: '--vllm-swift-bin',
    notInstalled: {
      darwin:
        'vllm-swift is not installed here: install it with "brew install TheTom/tap/vllm-swift" and "vllm-swift setup", or give its path with --vllm-swift-bin.',
      linux:
        'vllm-swift is not on PATH, and runs only on a Mac with Apple silicon: choose mlx-lm, or give its path with --vllm-swift-bin.',
    },
  },
  flags: { table: flags, program: 'vllm-swift', product: 'vllm-swift', isStrict: true },
  version: { args: ['version'], shownBy: versionLine },
  helpArgs: ['version'],
  dialectFrom,
  usualDialect: { ...dialect, flags: undefined, problem: 'does not report its version. Install vllm-swift again.' },
  // As LLMKube's Go agent passes them, in its order. It leaves the number of requests to vLLM unless there are several, and each has a cache of
  // its own: so many were not counted.
  argv: ({ spec, modelPath, port, alias }) => [
    ...['serve', modelPath],
    ...['--port', String(port)],
    ...['--host', '127.0.0.1'],
    ...['--max-model-len', String(contextSizeOf(spec))],
    ...['--max-num-seqs', String(slotsOf(spec))],
    ...cacheScheme(spec),
    ...(alias === undefined || namesModel(spec.extraArgs) ? [] : ['--served-model-name', alias]),
    ...spec.extraArgs,
  ],
  localCommand: (argv, workingDirectory) => withRealFolder(argv, 'serve', workingDirectory),
  environment: {
    // Nothing is fetched, and nobody is told what is served here.
    ...{ HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1', VLLM_NO_USAGE_STATS: '1', DO_NOT_TRACK: '1' },
    // What it prints is there when it ends.
    PYTHONUNBUFFERED: '1',
  },
  advice: { product: 'vllm-swift', formula: 'vllm-swift', causes },
}
