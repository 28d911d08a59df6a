import type { InferenceServiceSpec } from '../kube/resources.ts'
import { mebibyte } from '../memory/estimate/items.ts'
import { keptPrompts } from '../memory/estimate/mlx.ts'
import { allowed, code, flagsIn, ours, refused, type FlagTable } from './llama-server-flags.ts'
import type { Dialect } from './dialect.ts'
import { mlxCauses, mlxRow, pythonCauses } from './mlx-folder.ts'
import type { ProcessRuntime } from './runtime.ts'

/** Every flag of mlx-lm 0.32.2. What is not listed is refused. */
const flags: FlagTable = new Map([
  ...allowed('none', '--use-default-chat-template'),
  ...allowed('number', '--temp --top-p --top-k --min-p --max-tokens'),
  ...allowed('text', '--chat-template-args --log-level'),

  ...ours('the agent decides where the server listens', '--host --port --allowed-origins'),
  ...ours('the agent gives the server the folder of the Model', '--model'),
  ...ours(
    'spec.parallelSlots says how many requests are answered at once',
    '--decode-concurrency --prompt-concurrency',
  ),
  ...ours(
    'the agent bounds the cache of prompts by what was counted for it',
    '--prompt-cache-bytes --prompt-cache-size',
  ),

  ...code('it makes the server run Python from the folder of the model', '--trust-remote-code'),

  ...refused(
    'a quantised cache answers one request at a time and is not bounded by what was counted for it',
    '--kv-bits --kv-group-size --quantized-kv-start',
  ),
  ...refused('its memory is not counted yet', '--prefill-step-size'),
  ...refused('a draft model is not counted against the memory of this machine yet', '--draft-model --num-draft-tokens'),
  ...refused('its folder could be any folder of this machine', '--adapter-path'),
  ...refused('the template of the model is what its clients expect', '--chat-template'),
  ...refused('only this machine serves the model', '--pipeline'),
  ...refused('the server would only print something and exit', '-h --help'),
])

/** Requests that are answered at once where the spec does not say; llama-server has as many slots. */
export const defaultSlots = 4

export const slotsOf = ({ parallelSlots }: Pick<InferenceServiceSpec, 'parallelSlots'>): number =>
  parallelSlots !== undefined && parallelSlots > 0 ? parallelSlots : defaultSlots

/** All builds that know our flags spell them the same; one that does not ends at them. */
const dialect: Dialect = { lockMemory: [], reserve: [], boundsPromptCache: true, flags: undefined }

/** The name of the link to the model's folder in the working directory: clients are told what the server was given. */
const modelLink = 'model'

/**
 * mlx-lm's server, as pip, uv and Homebrew install it: one model per process. Any request can have it load another model, from a folder or the
 * Hub, or fetch an image: it listens on loopback alone, and the gateway before it decides what a request may say.
 */
export const mlxLmRuntime: ProcessRuntime = {
  ...mlxRow,
  name: 'mlx-lm',
  programSetting: 'mlxLm',
  program: {
    name: 'mlx_lm.server',
    flag: '--mlx-lm-bin',
    notInstalled: {
      darwin:
        'mlx-lm is not installed here: install it with "metal-agent runtimes install mlx-lm", or give the path of mlx_lm.server with --mlx-lm-bin, such as ~/.local/bin/mlx_lm.server.',
      linux:
        'mlx_lm.server is not on PATH: install it with "metal-agent runtimes install mlx-lm", or give its path with --mlx-lm-bin.',
    },
  },
  flags: { table: flags, program: 'mlx_lm.server', product: 'mlx-lm', isStrict: true },
  version: { args: ['--version'], shownBy: /^(\d\S*)$/m, beside: 'mlx_lm' },
  usualStallMs: 300_000,
  helpArgs: ['--help'],
  dialectFrom: (help) => ({ ...dialect, flags: flagsIn(help) }),
  usualDialect: dialect,
  argv: ({ spec, modelPath, port, promptCacheMiB }) => {
    const slots = String(slotsOf(spec))
    return [
      ...['--model', modelPath],
      ...['--host', '127.0.0.1'],
      ...['--port', String(port)],
      // No page of another origin may read an answer.
      ...['--allowed-origins', ''],
      ...['--log-level', 'WARNING'],
      ...['--decode-concurrency', slots, '--prompt-concurrency', slots],
      ...(promptCacheMiB === undefined
        ? []
        : ['--prompt-cache-bytes', String(promptCacheMiB * mebibyte), '--prompt-cache-size', String(keptPrompts)]),
      ...spec.extraArgs,
    ]
  },
  localCommand: (argv) => {
    const folder = argv[argv.indexOf('--model') + 1] ?? ''
    const words = argv.map((word, at) => (argv[at - 1] === '--model' ? modelLink : word))
    return Promise.resolve({ argv: words, links: new Map([[modelLink, folder]]) })
  },
  environment: {
    // Nothing is fetched, and other models of this person are not listed.
    ...{ HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1', HF_HUB_CACHE: '.' },
    // What it prints is there when it ends.
    PYTHONUNBUFFERED: '1',
  },
  advice: { product: 'mlx-lm', formula: 'mlx-lm', causes: [...mlxCauses, ...pythonCauses] },
}
