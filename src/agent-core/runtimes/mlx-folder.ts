import { realpath, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { formatBytes } from '../../contract/format.ts'
import { configProblem, configText, maxConfigBytes } from '../memory/estimate/mlx.ts'
import type { KnownCause } from '../servers/crash-cause.ts'
import { SpawnError } from '../servers/launch.ts'
import { parseJson } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'
import type { LocalCommand } from './argument-policy.ts'
import type { ProcessRuntime } from './runtime.ts'

/**
 * Why a folder must not be given to a runtime of MLX. Earlier builds of mlx-lm run the Python file that config.json names as `model_file`
 * (CVE-2026-5843), and a repository brings its config.json along: such a model is given to none. Nor is one whose numbers are beyond any
 * model, of which Python would make as many layers as they say.
 */
export async function folderProblem(folder: string): Promise<string | undefined> {
  const found = await stat(folder).catch(() => undefined)
  if (found?.isDirectory() !== true) return `${folder} is not a folder: name the folder that holds the model.`
  const file = join(folder, 'config.json')
  const text = await configText(folder)
  if (text === undefined)
    return `${file} cannot be read, or has more than ${formatBytes(maxConfigBytes)}: use another model.`
  const config = parseJson(text)
  // Python reads more than JSON, such as NaN: what cannot be judged is not started.
  if (typeof config !== 'object' || config === null) return `${file} is not a JSON object: fetch the model again.`
  const problem = configProblem(config)
  if (problem !== undefined) return `${file} ${problem}`
  if (!('model_file' in config)) return undefined
  return `${file} names a program of the model's own (model_file), which would run as this user: use a model without one.`
}

/**
 * The command line with the folder behind the word `before` as it is seen from the working directory: clients are told what the server was
 * given, and an absolute path has the name of a person in it. No link is left in the path, since some builds of mlx-swift-lm take the
 * kind of a model from the last link. What is no folder would be taken for a repository of the Hub and fetched. Throws SpawnError.
 */
export async function withRealFolder(
  argv: readonly string[],
  before: string,
  workingDirectory: string,
): Promise<LocalCommand> {
  const at = argv.indexOf(before) + 1
  const folder = argv[at] ?? ''
  try {
    const [from, to] = await Promise.all([realpath(workingDirectory), realpath(folder)])
    if (!(await stat(to)).isDirectory()) throw new Error('it is no folder')
    return { argv: argv.with(at, relative(from, to)), links: new Map() }
  } catch (error) {
    throw new SpawnError(`The folder of the model, ${folder}, cannot be used: ${messageOf(error)}.`, { cause: error })
  }
}

/** What the runtimes for a folder of MLX have in common. */
export const mlxRow = {
  kind: 'process',
  aliases: [],
  formats: ['mlx', 'safetensors'],
  fieldProblem: () => undefined,
  modelProblem: folderProblem,
  sleepsWhenIdle: () => false,
  sizing: 'safetensors',
  isBehindGateway: true,
} as const satisfies Partial<ProcessRuntime>

/** In the words of mlx-lm 0.32.2 (2026), mlx-swift-lm and MLX, which all of its runtimes are made of. */
export const mlxCauses: readonly KnownCause[] = [
  {
    says: /Model type \S+ not supported|Unsupported model type|Model architectures? \S+ (is|are) not supported/i,
    advice: ({ product, upgrade }) =>
      `This ${product} does not know this kind of model: ${upgrade}, or choose another model.`,
  },
  {
    says: /No safetensors found in|config\.json'?: No such file|No such file or directory: '[^']*(config|tokenizer)[^']*\.json'/i,
    advice: () => 'The folder lacks files of the model: correct spec.source of the Model, or fetch the model again.',
  },
  {
    says: /\[load_safetensors\]|incomplete download or corrupt file|(SafetensorError|HeaderTooLarge|InvalidHeader)/,
    advice: () => 'A weight file of the model is damaged or cut short: fetch the model again.',
  },
  {
    says: /(Received|Missing) \d+ parameters|keyNotFound|mismatchedSize|Unable to set \S+ on/,
    advice: ({ product, upgrade }) =>
      `The weights do not fit config.json of the model, or this ${product} is older than the model: fetch the model again, or ${upgrade}.`,
  },
  {
    says: /Couldn't instantiate the backend tokenizer|tokenizer\.json (is )?(missing|not found)|missingConfig|unsupportedTokenizer/i,
    advice: () => 'The folder lacks the tokenizer of the model, or one that can be used: fetch the model again.',
  },
  {
    says: /\[metal::malloc\]|\[malloc(_or_wait)?\] Unable to allocate|Command buffer execution failed: Insufficient Memory/,
    advice: ({ tooMuch }) => tooMuch,
  },
]

/** In the words of Python 3.11 and of its argparse (2026). */
export const pythonCauses: readonly KnownCause[] = [
  {
    says: /^(ModuleNotFoundError|ImportError): /,
    advice: ({ product, reinstall }) => `A part of ${product}, or of what it needs, is missing: ${reinstall}.`,
  },
  {
    says: /: error: (unrecognized arguments|argument \S+: |the following arguments)/,
    advice: ({ product }) =>
      `This ${product} does not accept that argument or its value: correct spec.extraArgs, or install another version of ${product}.`,
  },
]
