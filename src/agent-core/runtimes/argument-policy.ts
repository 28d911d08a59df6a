import { basename, dirname, isAbsolute, normalize } from 'node:path'
import { isBelow } from '../util/is-below.ts'
import { flagName, type FlagTable, type ValueKind } from './llama-server-flags.ts'

/** What a person of this machine decided about what a spec may ask of a server. */
export interface ArgumentPolicy {
  /** `--allow-unsafe-extra-args`. */
  readonly allowsUnsafe: boolean
  /** Absolute folders below which every file must lie that a server's arguments name. */
  readonly modelRoots: readonly string[]
}

interface ArgumentRefusal {
  /** One sentence or two: the flag, why, and what to do. */
  readonly message: string
  /** A server that was started with these arguments may run programs for others. */
  readonly loadsCode: boolean
}

/** The flags of a runtime, each with a judgement. */
export interface ServerFlags {
  readonly table: FlagTable
  /** The program whose `--help` says how they are written. */
  readonly program: string
  /** What a person installs to have the program. */
  readonly product: string
  /** An unknown flag ends it and dashes are no underscores; Python's argparse takes the beginning of a long flag for it, besides. */
  readonly isStrict?: boolean
}

export const unsafeFlag = '--allow-unsafe-extra-args'

/**
 * Judges the arguments that a spec adds to a server's command line, as its program would read them. A value never begins with a
 * dash unless it is a number, so that no build, however many values it takes for a flag, finds a flag where this found a value.
 * Pure: what needs a look at the machine is judged by {@link startProblem}.
 */
export function judgeArguments(
  args: readonly string[],
  policy: ArgumentPolicy,
  flags: ServerFlags,
): ArgumentRefusal | undefined {
  const { table } = flags
  const names = args.map((argument) => read(argument).name)
  const ours = names.find((name) => standsForOurs(name, flags))
  const loadsCode = names.some((name) => isCode(name, table))
  if (ours !== undefined)
    return { message: `spec.extraArgs: ${ours} is refused: ${whyOf(ours, table)}. Remove it.`, loadsCode }
  if (policy.allowsUnsafe) return undefined
  const misspelt = flags.isStrict === true ? args.find((argument) => /^--[\w-]*_/.test(argument)) : undefined
  if (misspelt !== undefined) {
    return {
      message: `spec.extraArgs: ${shown(misspelt)} is refused: write flags with dashes, as ${flags.program} --help does.`,
      loadsCode,
    }
  }
  const problem = uses(args, table).find((use) => problemWith(use, policy, flags) !== undefined)
  if (problem === undefined) return undefined
  const { name } = problem
  const what = `spec.extraArgs: ${shown(name)} is refused: ${problemWith(problem, policy, flags) ?? ''}`
  return {
    message: `${what}. Remove it, or allow it on this machine with ${unsafeFlag}.`,
    loadsCode,
  }
}

interface StartLook {
  readonly policy: ArgumentPolicy
  readonly flags: ServerFlags
  readonly executable: string
  /** The flags it knows; undefined where it does not say. */
  readonly known: ReadonlySet<string> | undefined
  /** Links are followed. */
  readonly allowsFile: (path: string) => Promise<boolean>
}

/**
 * What this machine has against arguments that were judged: a flag that the installed build does not know or a link that leads out of the model roots.
 */
export async function startProblem(
  args: readonly string[],
  { policy, flags: { table, product }, executable, known, allowsFile }: StartLook,
): Promise<string | undefined> {
  if (policy.allowsUnsafe || args.length === 0) return undefined
  if (known === undefined) {
    return `spec.extraArgs cannot be checked, because ${executable} does not answer --help. Install ${product} again, or remove them.`
  }
  const used = uses(args, table)
  const unknown = used.find(({ name }) => !known.has(name))
  if (unknown !== undefined) {
    return `spec.extraArgs: ${shown(unknown.name)} is refused: ${executable} does not know it. Remove it, or install another version of ${product}.`
  }
  for (const use of used) {
    for (const path of pathsOf(use, table)) {
      if (await allowsFile(path)) continue
      return `spec.extraArgs: ${shown(use.name)} is refused: its file is not a model in the model store or an allowed model root.`
    }
  }
  return undefined
}

/** Absolute paths of the files that arguments name, as far as the flags are known. */
export const filesIn = (args: readonly string[], table: FlagTable): readonly string[] =>
  uses(args, table).flatMap((use) => pathsOf(use, table))

/** Undefined where the text may stand as the value of a flag that takes any text. */
export const textProblem = (text: string): string | undefined => {
  if (text.includes('\0')) return 'its value contains a zero byte'
  return text.startsWith('-') && !number.test(text) ? 'its value must not begin with a dash' : undefined
}

/** A flag with what follows it. */
interface Use {
  readonly name: string
  readonly values: readonly string[]
}

/** Absent from the table = takes nothing; it is refused anyway. */
function uses(args: readonly string[], table: FlagTable): Use[] {
  const found: Use[] = []
  for (let at = 0; at < args.length; at++) {
    const { name, joined } = read(args[at] ?? '')
    const judgement = table.get(name)
    const count = judgement?.verdict === 'allowed' ? valueCounts[judgement.takes] : 0
    const values = joined === undefined ? args.slice(at + 1, at + 1 + count) : [joined]
    if (joined === undefined) at += count
    found.push({ name, values })
  }
  return found
}

/** `--flag=value` is judged as the flag, whether or not a build takes it so. */
function read(argument: string): { readonly name: string; readonly joined?: string } {
  const at = argument.startsWith('-') ? argument.indexOf('=') : -1
  if (at === -1) return { name: flagName(argument) }
  return { name: flagName(argument.slice(0, at)), joined: argument.slice(at + 1) }
}

const valueCounts: Readonly<Record<ValueKind, number>> = {
  none: 0,
  number: 1,
  twoNumbers: 2,
  text: 1,
  paths: 1,
  scaledPaths: 1,
}

const number = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i

function problemWith(use: Use, { modelRoots }: ArgumentPolicy, { table, program }: ServerFlags): string | undefined {
  const { name, values } = use
  const judgement = table.get(name)
  if (judgement === undefined) {
    return name.startsWith('-')
      ? `this agent does not know it; write flags as ${program} --help does`
      : 'it is neither a flag nor the value of one'
  }
  if (judgement.verdict !== 'allowed') return judgement.why
  const { takes } = judgement
  if (values.length !== valueCounts[takes]) {
    return takes === 'none' ? 'it takes no value' : `it needs ${takes === 'twoNumbers' ? 'two numbers' : 'a value'}`
  }
  if ((takes === 'number' || takes === 'twoNumbers') && !values.every((value) => number.test(value))) {
    return `it needs ${takes === 'number' ? 'a number' : 'two numbers'}`
  }
  const text = values.map(textProblem).find((problem) => problem !== undefined)
  if (text !== undefined) return text
  const outside = pathsOf(use, table).some((path) => !isBelowAny(path, modelRoots))
  return outside
    ? 'a file must be given by its absolute path below the model store or an allowed model root'
    : undefined
}

function pathsOf({ name, values }: Use, table: FlagTable): readonly string[] {
  const judgement = table.get(name)
  if (judgement?.verdict !== 'allowed') return []
  switch (judgement.takes) {
    case 'paths':
      return values.flatMap((value) => value.split(','))
    case 'scaledPaths':
      return values.flatMap((value) => value.split(',')).map((one) => one.slice(0, Math.max(0, one.lastIndexOf(':'))))
    case 'none':
    case 'number':
    case 'twoNumbers':
    case 'text':
      return []
  }
}

/** A command line that names its files below the working directory of its server. */
export interface LocalCommand {
  readonly argv: readonly string[]
  /** By the name of a link in the working directory the folder that it leads to. */
  readonly links: ReadonlyMap<string, string>
}

/**
 * llama-server tells every client the paths that it was given, and with them the name of a person: each folder of a file gets a link in its
 * working directory. Of folders and not of files, since the parts of a split model are found by the name of the first.
 */
export function withLocalFiles(argv: readonly string[], table: FlagTable): LocalCommand {
  const links = new Map<string, string>()
  const local = (path: string): string => {
    const folder = dirname(path)
    const name = links.get(folder) ?? (links.size === 0 ? 'model' : `files-${links.size + 1}`)
    links.set(folder, name)
    return `${name}/${basename(path)}`
  }
  const words: string[] = []
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? ''
    const { name, joined } = read(argument)
    const judgement = table.get(name)
    const takes = judgement?.verdict === 'allowed' ? judgement.takes : isModel(name) ? 'paths' : 'none'
    const values = joined === undefined ? argv.slice(at + 1, at + 1 + valueCounts[takes]) : [joined]
    const given = values.map((value) => withLocalPaths(value, isModel(name) ? 'path' : takes, local))
    if (joined !== undefined) words.push(`${argument.slice(0, argument.indexOf('='))}=${given.join('')}`)
    else words.push(argument, ...given)
    if (joined === undefined) at += values.length
  }
  return { argv: words, links: new Map([...links].map(([folder, name]) => [name, folder])) }
}

const isModel = (name: string): boolean => name === '--model' || name === '-m'

/** A list of which one is no absolute path stays as it is: the name of a single file may hold a comma. */
function withLocalPaths(value: string, takes: ValueKind | 'path', local: (path: string) => string): string {
  if (takes === 'path') return isAbsolute(value) ? local(value) : value
  if (takes !== 'paths' && takes !== 'scaledPaths') return value
  const all = value.split(',')
  return all.every(isAbsolute) ? all.map(local).join(',') : value
}

export const isBelowAny = (path: string, roots: readonly string[]): boolean =>
  isAbsolute(path) && normalize(path) === path && roots.some((root) => isBelow(path, root))

function standsForOurs(name: string, { table, isStrict = false }: ServerFlags): boolean {
  if (table.get(name)?.verdict === 'ours') return true
  if (!isStrict || table.has(name) || !/^--\w/.test(name)) return false
  return [...table].some(([flag, { verdict }]) => verdict === 'ours' && flag.startsWith(name))
}

const whyOf = (name: string, table: FlagTable): string => {
  const judgement = table.get(name)
  if (judgement === undefined) return 'it is another name for one that only the agent sets'
  return judgement.verdict === 'allowed' ? '' : judgement.why
}

function isCode(name: string, table: FlagTable): boolean {
  const judgement = table.get(name)
  return judgement?.verdict === 'refused' && judgement.loadsCode
}

const maxShownLength = 60
const shown = (text: string): string => (text.length <= maxShownLength ? text : `${text.slice(0, maxShownLength)}…`)
