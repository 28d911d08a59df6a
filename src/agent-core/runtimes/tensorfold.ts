import type { KnownCause } from '../servers/crash-cause.ts'
import type { Dialect } from './dialect.ts'
import { contextSizeOf } from './llama-server.ts'
import { allowed, flagsIn, ours, refused, type FlagTable } from './llama-server-flags.ts'
import { mlxCauses, mlxRow, pythonCauses, withRealFolder } from './mlx-folder.ts'
import { slotsOf } from './mlx-lm.ts'
import type { ProcessRuntime } from './runtime.ts'

/** The flags of TensorFold 0.3 to 0.6 that are known, with a judgement each. What is not listed is refused. */
const flags: FlagTable = new Map([
  ...allowed('none', '--no-drafts'),
  ...allowed('number', '--max-tokens'),

  ...ours('the agent decides where the server listens', '--host --port'),
  ...ours('clients call the model by the name of its Model', '--name --alias'),
  ...ours('spec.contextSize says how long a conversation may be', '--context'),
  ...ours('spec.parallelSlots says how many requests are answered at once', '--parallel'),
  ...ours('the server fetches nothing, and does not check for newer versions', '--no-update-check'),
  ...ours('conversations are not written to the disk', '--snapshot-dir'),

  ...refused('only this machine serves the model', '--tp --rank --master --master-port'),
  ...refused('its memory is not counted yet', '--prompt-cache-gib --drafter --backend'),
  ...refused('it makes the server fetch images from wherever a request says', '--vision-urls'),
  ...refused('the gateway in front of it checks keys', '--api-key --api-key-file'),
  ...refused('the agent decides who may read its figures', '--metrics-open'),
  ...refused('the server would only print something and exit', '-h --help --version'),
])

const dialect: Dialect = { lockMemory: [], reserve: [], boundsPromptCache: false, flags: undefined }

const causes: readonly KnownCause[] = [
  {
    says: /do not fit this server's/,
    advice: () =>
      'It allows itself less memory than that: lower spec.contextSize or spec.parallelSlots, or choose a smaller model.',
  },
  {
    says: /-token window/,
    advice: () => 'The model was not made for conversations of that length: lower spec.contextSize.',
  },
  ...mlxCauses,
  ...pythonCauses,
]

/** TensorFold: one model per process, loaded before it listens, on loopback alone as LLMKube's agent has it. */
export const tensorfoldRuntime: ProcessRuntime = {
  ...mlxRow,
  name: 'tensorfold',
  programSetting: 'tensorfold',
  program: {
    name: 'tensorfold',
    flag: '--tensorfold-bin',
    notInstalled: {
      darwin:
        'tensorfold is not installed here: install it as https://github.com/ashhart/TensorFold says, or give its path with --tensorfold-bin, such as ~/.local/bin/tensorfold.',
      linux:
        'tensorfold is not on PATH, and runs only on a Mac with Apple silicon: choose mlx-lm, or give its path with --tensorfold-bin.',
    },
  },
  flags: { table: flags, program: 'tensorfold', product: 'TensorFold', isStrict: true },
  version: { args: ['--version'], shownBy: /^(?:tensorfold )?v?(\d\S*)$/im },
  usualStallMs: 600_000,
  helpArgs: ['serve', '--help'],
  dialectFrom: (help) => ({ ...dialect, flags: flagsIn(help) }),
  usualDialect: dialect,
  // As LLMKube's agent passes them, in its order, and what keeps it to the requests that were counted and off the disk.
  argv: ({ spec, modelPath, port, alias }) => [
    ...['serve', modelPath],
    ...['--host', '127.0.0.1'],
    ...['--port', String(port)],
    ...(alias === undefined ? [] : ['--name', alias]),
    '--no-update-check',
    ...['--context', String(contextSizeOf(spec))],
    ...['--parallel', String(slotsOf(spec))],
    ...['--snapshot-dir', 'none'],
    ...spec.extraArgs,
  ],
  localCommand: (argv, workingDirectory) => withRealFolder(argv, 'serve', workingDirectory),
  environment: {
    // Nothing is fetched, and nobody is told what is served here.
    ...{ TENSORFOLD_NO_UPDATE_CHECK: '1', HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' },
    // What it prints is there when it ends.
    PYTHONUNBUFFERED: '1',
  },
  advice: { product: 'TensorFold', causes },
}
