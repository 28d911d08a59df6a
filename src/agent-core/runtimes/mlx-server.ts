import { flagsIn, allowed, ours, refused, type FlagTable } from './llama-server-flags.ts'
import type { KnownCause } from '../servers/crash-cause.ts'
import type { Dialect } from './dialect.ts'
import { mlxCauses, mlxRow, withRealFolder } from './mlx-folder.ts'
import type { ProcessRuntime } from './runtime.ts'

/** Every flag of mlx-server 0.1.0. What is not listed is refused. */
const flags: FlagTable = new Map([
  ...allowed('text', '--tool-call-format --reasoning'),
  ...ours('the agent decides where the server listens', '--host --port'),
  ...ours('the agent gives the server the folder of the Model', '--model'),
  ...ours('spec.parallelSlots says how many requests are answered at once', '--max-slots'),
  ...refused('the server would only print something and exit', '-h --help --version'),
])

const dialect: Dialect = { lockMemory: [], reserve: [], boundsPromptCache: false, flags: undefined }

const causes: readonly KnownCause[] = [
  {
    says: /Failed to load the default metallib/,
    advice: () =>
      'The program was separated from the folders that belong beside it: install mlx-server again with all of them.',
  },
  {
    says: /^Error: (Unknown option|Missing value for|The value .* is invalid)/,
    advice: () =>
      'This mlx-server does not accept that argument or its value: correct spec.extraArgs, or install another version of mlx-server.',
  },
  ...mlxCauses,
]

/**
 * mlx-server of LLMKube's author: one model per process, loaded before it listens. No request can have it load or fetch anything: it takes the
 * text of messages alone, leaves pictures out, and does not look at the name of the model.
 */
export const mlxServerRuntime: ProcessRuntime = {
  ...mlxRow,
  name: 'mlx-server',
  programSetting: 'mlxServer',
  program: {
    name: 'mlx-server',
    flag: '--mlx-server-bin',
    notInstalled: {
      darwin:
        'mlx-server is not installed here: install it from https://github.com/defilantech/mlx-server with the folders that come beside its program, or give its path with --mlx-server-bin.',
      linux:
        'mlx-server is not on PATH, and runs only on a Mac with Apple silicon: choose mlx-lm, or give its path with --mlx-server-bin.',
    },
  },
  flags: { table: flags, program: 'mlx-server', product: 'mlx-server', isStrict: true },
  version: { args: ['--version'], shownBy: /^(\d\S*)$/m },
  helpArgs: ['--help'],
  dialectFrom: (help) => ({ ...dialect, flags: flagsIn(help) }),
  usualDialect: dialect,
  // As LLMKube's Go agent passes them, in its order; the address follows --listen.
  argv: ({ spec, modelPath, host = '0.0.0.0', port }) => [
    ...['--model', modelPath],
    ...['--host', host],
    ...['--port', String(port)],
    ...(spec.parallelSlots !== undefined && spec.parallelSlots > 1 ? ['--max-slots', String(spec.parallelSlots)] : []),
    ...spec.extraArgs,
  ],
  localCommand: (argv, workingDirectory) => withRealFolder(argv, '--model', workingDirectory),
  environment: {},
  advice: { product: 'mlx-server', causes },
  isBehindGateway: false,
}
