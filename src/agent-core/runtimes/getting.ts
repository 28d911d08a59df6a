import { mkdir, readdir, readlink, realpath, rename, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import type { Options } from 'execa'
import { type Installer, installer as installerSchema, type RuntimeDeed } from '../../contract/commands.ts'
import { shellWord } from '../../contract/shell.ts'
import type { Platform, ProcessFacts } from '../platform/platform.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import { acquireLock, startTimeOf } from '../state/lock.ts'
import { hasCode } from '../util/files.ts'
import { type Executable, findExecutable, type Wanted } from '../util/find-executable.ts'
import { messageOf } from '../util/message-of.ts'
import { askProgram, ProgramError } from '../util/ask-program.ts'
import { launchEnvironment } from '../servers/launch.ts'
import type { DaemonRuntime } from './runtime.ts'
import { Dialects } from './dialect.ts'
import { InstalledRuntimes } from './installed.ts'
import { runtimes } from './runtimes.ts'

interface Source {
  /** What Homebrew calls it. */
  readonly formula?: string
  /** Where it has the formula, which is in none of its own places. */
  readonly tap?: readonly [name: string, repository: string]
  /** To be run once after that. */
  readonly setUp?: readonly [string, ...string[]]
  /** Who else has it; completes "…, or <elsewhere>.". */
  readonly elsewhere?: string
  /** What pip calls it, from the version on that this agent is tested with. */
  readonly packages?: Readonly<Record<'darwin' | 'linux', readonly string[]>>
}

/** A runtime that is not in this table is installed by hand: neither Homebrew nor the Python package index has it, and no other archive is fetched. */
const sources: Readonly<Partial<Record<ServerRuntime, Source>>> = {
  'llama-server': { formula: 'llama.cpp' },
  'mlx-lm': {
    formula: 'mlx-lm',
    packages: { darwin: ['mlx-lm>=0.32.2'], linux: ['mlx-lm>=0.32.2', 'mlx[cpu]'] },
  },
  'vllm-swift': { formula: 'TheTom/tap/vllm-swift', setUp: ['vllm-swift', 'setup'] },
  ollama: { formula: 'ollama', elsewhere: 'get Ollama from https://ollama.com/download' },
  omlx: {
    formula: 'jundot/omlx/omlx',
    tap: ['jundot/omlx', 'https://github.com/jundot/omlx'],
    elsewhere: 'get oMLX from https://github.com/jundot/omlx/releases',
  },
}

/** One sentence why nothing was done, and what to do. */
export class GettingError extends Error {
  override readonly name = 'GettingError'
}

interface Step {
  readonly command: string
  readonly args: readonly string[]
}

interface Work {
  readonly runtime: ServerRuntime
  readonly deed: RuntimeDeed
  readonly steps: readonly Step[]
  /** The Python environment that the steps make, or that is gone back to or removed. */
  readonly environment?: string
}

/** What is to be done, shown to a person before it is. */
export interface GettingPlan extends Work {
  /** The steps as a person would type them. */
  readonly commands: readonly string[]
}

export interface GettingOptions {
  readonly stateDir: string
  readonly system: 'darwin' | 'linux'
  readonly env: NodeJS.ProcessEnv
  /** Where Homebrew is looked for; absent = its usual folders. */
  readonly homebrewFolders?: readonly string[]
  readonly now?: () => Date
}

/** Everything of a runtime that Metalbar installed itself: an environment for each version, and which of them counts. {@link ownProgramFolder} is in it. */
const folderOf = ({ stateDir }: Pick<GettingOptions, 'stateDir'>, runtime: ServerRuntime): string =>
  join(stateDir, 'runtimes', runtime)
/** Links to the environment that counts, and to the one before it. */
const [currentLink, previousLink] = ['current', 'previous']

/** Works out what the deed takes, and does nothing. `by` absent = Homebrew where it is, else uv, else pip. Throws {@link GettingError}. */
export async function planFor(
  name: ServerRuntime,
  deed: RuntimeDeed,
  options: GettingOptions,
  by?: Installer,
): Promise<GettingPlan> {
  const work = await workFor(name, deed, options, by)
  return { ...work, commands: work.steps.map(shownStep) }
}

async function workFor(
  runtime: ServerRuntime,
  deed: RuntimeDeed,
  options: GettingOptions,
  by?: Installer,
): Promise<Work> {
  const source = sources[runtime]
  const program = programOf(runtime)
  if (!source) throw new GettingError(`It cannot be installed from here. ${program.notInstalled[options.system]}`)
  const own = await environmentsOf(options, runtime)
  if (deed === 'install') {
    if (own.current === undefined) return installation(runtime, source, options, by)
    throw new GettingError(`It is already installed: run metal-agent runtimes update ${runtime}, or remove it first.`)
  }
  const here = own.current === undefined ? await homebrewed(runtime, source, options) : undefined
  if (deed === 'update') {
    if (here) return { runtime, deed, steps: [{ command: here.brew, args: ['upgrade', here.formula] }] }
    const python = by ?? (await pythonInstaller(options))
    // What Homebrew installs beside it would not count.
    if (python === 'brew')
      throw new GettingError(`Metalbar installed it: remove it first, then install it with Homebrew.`)
    return { ...(await installation(runtime, source, options, python)), deed }
  }
  if (deed === 'rollback') {
    if (here) throw new GettingError('Homebrew keeps no earlier version: install the one that you want with it.')
    const { previous } = own
    if (previous === undefined)
      throw new GettingError(`No earlier ${runtime} is kept here: it has not been updated yet.`)
    return { runtime, deed, steps: [], environment: previous }
  }
  if (here) return { runtime, deed, steps: [{ command: here.brew, args: ['uninstall', here.formula] }] }
  return { runtime, deed, steps: [], environment: folderOf(options, runtime) }
}

async function installation(
  runtime: ServerRuntime,
  { formula, tap, setUp, packages, elsewhere }: Source,
  options: GettingOptions,
  by?: Installer,
): Promise<Work> {
  const wanted = by === undefined ? installerSchema.options : [by]
  const found = await Promise.all(wanted.map(async (one) => [one, await findTool(one, options)] as const))
  const usable = found.filter(([one]) => (one === 'brew' ? formula : packages) !== undefined)
  const [installer, tool] = usable.find(([, { kind }]) => kind === 'found') ?? []
  const deed = 'install'
  if (tool?.kind !== 'found' || installer === undefined) {
    const names = usable.map(([one]) => toolNames[one])
    if (names.length === 0) throw new GettingError(`${toolNames[by ?? 'brew']} does not have ${runtime}.`)
    const ways = [howToGetTool, ...(elsewhere === undefined ? [] : [elsewhere])].join(', or ')
    throw new GettingError(
      `${runtime} is installed with ${names.join(', ')}, which this machine does not have: ${ways}.`,
    )
  }
  const { path: command } = tool
  if (installer === 'brew' && formula !== undefined) {
    // Homebrew links the programs of a formula beside its own.
    const [program, ...args] = setUp ?? []
    const after = program === undefined ? [] : [{ command: join(dirname(command), program), args }]
    const before = tap ? [{ command, args: ['tap', ...tap] }] : []
    return { runtime, deed, steps: [...before, { command, args: ['install', formula] }, ...after] }
  }
  const stamp = (options.now ?? (() => new Date()))().toISOString().replaceAll(/[:.]/g, '-')
  const environment = join(folderOf(options, runtime), stamp)
  const python = join(environment, 'bin', 'python')
  const wantedPackages = packages?.[options.system] ?? []
  const steps =
    installer === 'uv'
      ? [
          { command, args: ['venv', environment] },
          { command, args: ['pip', 'install', '--python', python, ...wantedPackages] },
        ]
      : [
          { command, args: ['-m', 'venv', environment] },
          { command: python, args: ['-m', 'pip', 'install', '--disable-pip-version-check', ...wantedPackages] },
        ]
  return { runtime, deed, steps, environment }
}

const toolNames: Readonly<Record<Installer, string>> = { brew: 'Homebrew', uv: 'uv', pip: "Python 3's pip" }
const programs: Readonly<Record<Installer, string>> = { brew: 'brew', uv: 'uv', pip: 'python3' }
const howToGetTool = 'install Homebrew from https://brew.sh'

function findTool(installer: Installer, options: GettingOptions): Promise<Executable> {
  const none = `${toolNames[installer]} is not here.`
  return findOutside({ name: programs[installer], flag: '', notInstalled: { darwin: none, linux: none } }, options)
}

/** Where others than Metalbar put programs. */
const findOutside = (wanted: Wanted, { system, env, homebrewFolders }: GettingOptions): Promise<Executable> =>
  findExecutable(wanted, { system, path: env['PATH'], ...(homebrewFolders && { homebrewFolders }) })

async function pythonInstaller(options: GettingOptions): Promise<Installer> {
  return (await findTool('uv', options)).kind === 'found' ? 'uv' : 'pip'
}

/** Throws {@link GettingError} where neither Homebrew nor we installed it. */
async function homebrewed(
  runtime: ServerRuntime,
  { formula }: Source,
  options: GettingOptions,
): Promise<{ readonly brew: string; readonly formula: string }> {
  const program = await findOutside(programOf(runtime), options)
  if (program.kind === 'missing') throw new GettingError(`${runtime} is not installed here.`)
  const brew = await findTool('brew', options)
  const isOfHomebrew = (await realpath(program.path)).includes(`${sep}Cellar${sep}`)
  if (brew.kind === 'found' && formula !== undefined && isOfHomebrew) return { brew: brew.path, formula }
  throw new GettingError(`${program.path} was installed some other way: use that.`)
}

interface CarryOut extends GettingOptions {
  readonly platform: Platform
  /** What the programs print, as they print it. */
  readonly onOutput: (text: string) => unknown
  readonly signal: AbortSignal
}

/**
 * Does what the plan says, and returns one sentence of what is here now. What was installed counts only once it has been run and answered;
 * until then, and where anything fails or is cancelled, the version before it stays as it was. Throws {@link GettingError}.
 */
export async function carryOut(plan: GettingPlan, how: CarryOut): Promise<string> {
  const { runtime } = plan
  await mkdir(join(how.stateDir, 'runtimes'), { recursive: true, mode: 0o700 })
  const taken = await acquireLock({
    file: `${folderOf(how, runtime)}.lock`,
    processStartTime: (pid) => startTimeOf(how.platform, pid),
  })
  if (!taken.ok) {
    const { holder, message } = taken
    throw new GettingError(
      holder ? `Process ${holder.pid} has been working on ${runtime} since ${holder.since}.` : message,
    )
  }
  try {
    return await done(plan, how)
  } finally {
    await taken.lock.release()
  }
}

async function done(plan: GettingPlan, how: CarryOut): Promise<string> {
  const { runtime, deed, environment } = plan
  if (deed === 'remove' && environment !== undefined) return removeOwn(how, runtime, environment)
  if (deed === 'rollback' && environment !== undefined) {
    const version = await verified(runtime, join(environment, 'bin', programOf(runtime).name))
    await switchTo(how, runtime, environment)
    return `${runtime} is ${version} again. ${nextStartOf(runtime)}`
  }
  try {
    for (const step of plan.steps) await runStep(step, how)
    if (deed === 'remove') return `${runtime} is removed.`
    const version = await verified(runtime, await installedProgram(plan, how))
    if (environment !== undefined) await switchTo(how, runtime, environment)
    return `${runtime} ${version} is installed. ${nextStartOf(runtime)}`
  } catch (error) {
    if (environment !== undefined) await rm(environment, { recursive: true, force: true })
    throw error
  }
}

function nextStartOf(name: ServerRuntime): string {
  const runtime = runtimes[name]
  return runtime.kind === 'process'
    ? 'Running servers keep the version they were started with; the next start uses this one.'
    : `It is used once it runs: ${runtime.howToStart}.`
}

/** Undefined for a daemon that only a person starts. */
function startedProgram(name: ServerRuntime): Wanted | undefined {
  const runtime = runtimes[name]
  return runtime.kind === 'process' ? runtime.program : runtime.start?.program
}

/** Throws {@link GettingError}. */
function programOf(name: ServerRuntime): Wanted {
  const program = startedProgram(name)
  if (program) return program
  const { product, howToStart } = { product: name, howToStart: '', ...runtimes[name] }
  throw new GettingError(`${product} is installed by hand: ${howToStart}.`)
}

/** Whether its program is where Metalbar installs it, or where others do. */
export async function isHere(runtime: ServerRuntime, options: GettingOptions): Promise<boolean> {
  if (!sources[runtime] || !startedProgram(runtime)) return false
  const own = await environmentsOf(options, runtime)
  return own.current !== undefined || (await findOutside(programOf(runtime), options)).kind === 'found'
}

async function installedProgram({ runtime, environment }: GettingPlan, options: GettingOptions): Promise<string> {
  const program = programOf(runtime)
  if (environment !== undefined) return join(environment, 'bin', program.name)
  const found = await findOutside(program, options)
  if (found.kind === 'missing') throw new GettingError(`The commands succeeded, but: ${found.message}`)
  return found.path
}

/** Its version, as it says it. Throws {@link GettingError} where it does not run, or lacks a flag that this agent gives it. */
async function verified(name: ServerRuntime, path: string): Promise<string> {
  const runtime = runtimes[name]
  if (runtime.kind === 'daemon') return verifiedDaemon(runtime, path)
  const installed = new InstalledRuntimes({
    offered: () => [name],
    find: () => Promise.resolve({ kind: 'found', path }),
    dialects: new Dialects(),
    limitMs: firstRunLimitMs,
  })
  const [view] = await installed.look()
  if (view?.version !== undefined && view.message === undefined) return view.version
  throw new GettingError(`It was installed, but does not run properly: ${view?.message ?? path}`)
}

async function verifiedDaemon({ product, start }: DaemonRuntime, path: string): Promise<string> {
  const { args, shownBy } = start?.version ?? { args: [], shownBy: /^$/ }
  try {
    const [command, env] = [path, launchEnvironment()]
    const asked = { command, args, env, timeLimitMs: firstRunLimitMs, maxOutputBytes: maxVersionBytes }
    const { stdout, stderr } = await askProgram(asked)
    const told = shownBy.exec(`${stdout}\n${stderr}`)?.[1]
    if (told !== undefined) return told
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error
    throw new GettingError(`It was installed, but does not run properly: ${error.message}`, { cause: error })
  }
  throw new GettingError(`It was installed, but ${path} does not report its version as ${product} does.`)
}

/** A program that prints more is not asked further. */
const maxVersionBytes = 64 * 1024

/** Python compiles what it has just installed, and a Mac looks through a new program. */
const firstRunLimitMs = 120_000

interface Environments {
  readonly current: string | undefined
  readonly previous: string | undefined
}

async function environmentsOf(
  options: Pick<GettingOptions, 'stateDir'>,
  runtime: ServerRuntime,
): Promise<Environments> {
  const folder = folderOf(options, runtime)
  const target = async (link: string): Promise<string | undefined> => {
    try {
      return join(folder, await readlink(join(folder, link)))
    } catch (error) {
      if (hasCode(error, 'ENOENT') || hasCode(error, 'EINVAL')) return undefined
      throw error
    }
  }
  return { current: await target(currentLink), previous: await target(previousLink) }
}

/** The one that counted until now is kept as the previous one; those before it go, but for what a server still runs from. */
async function switchTo(how: CarryOut, runtime: ServerRuntime, environment: string): Promise<void> {
  const folder = folderOf(how, runtime)
  const { current } = await environmentsOf(how, runtime)
  if (current !== undefined) await pointTo(join(folder, previousLink), current)
  await pointTo(join(folder, currentLink), environment)
  const kept = new Set([environment, current])
  const used = await runningFrom(how, folder)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const one = join(folder, entry.name)
    if (!entry.isDirectory() || kept.has(one) || used.some(({ commandLine }) => commandLine.includes(one))) continue
    await rm(one, { recursive: true, force: true })
  }
}

/** Replaced in one step: a server that starts meanwhile finds one or the other. */
async function pointTo(link: string, environment: string): Promise<void> {
  const unfinished = `${link}.new`
  await rm(unfinished, { force: true })
  await symlink(basename(environment), unfinished)
  await rename(unfinished, link)
}

async function removeOwn(how: CarryOut, runtime: ServerRuntime, folder: string): Promise<string> {
  const used = await runningFrom(how, folder)
  if (used.length > 0) {
    const pids = used.map(({ pid }) => pid).join(', ')
    throw new GettingError(`A server runs from it (process ${pids}): stop its service, then remove ${runtime}.`)
  }
  await rm(folder, { recursive: true, force: true })
  return `${runtime} is removed.`
}

/** Processes whose command line names something below the folder. */
const runningFrom = async ({ platform }: CarryOut, folder: string): Promise<ProcessFacts[]> =>
  (await platform.processes()).filter(({ commandLine }) => commandLine.includes(`${folder}${sep}`))

/** The last lines of what a step printed, for the sentence of its failure. */
const keptText = 400

const rules = {
  extendEnv: false,
  stdin: 'ignore',
  all: true,
  buffer: false,
  encoding: 'utf8',
  reject: false,
  killDescendants: true,
  forceKillAfterDelay: 5_000,
} as const satisfies Options

async function runStep({ command, args }: Step, { env, onOutput, signal }: CarryOut): Promise<void> {
  signal.throwIfAborted()
  const { execa } = await import('execa')
  onOutput(`$ ${shownStep({ command, args })}\n`)
  // The programs have no standard input: one that asked a question would wait for ever.
  const variables = { ...env, NONINTERACTIVE: '1', HOMEBREW_NO_ENV_HINTS: '1', PIP_NO_INPUT: '1' }
  const program = execa(command, args, { ...rules, env: variables, cancelSignal: signal })
  let last = ''
  program.all.setEncoding('utf8')
  program.all.on('data', (text: string) => {
    last = `${last}${text}`.slice(-keptText)
    onOutput(text)
  })
  const { exitCode, isCanceled, signal: killedBy, cause } = await program
  if (isCanceled) throw signal.reason
  if (exitCode === 0) return
  const why = exitCode === undefined ? (killedBy ?? messageOf(cause)) : `exit code ${exitCode}`
  const said = last.trim().split('\n').slice(-3).join(' ')
  throw new GettingError(`${command} failed (${why})${said === '' ? '.' : `: ${said}`}`)
}

/** As a person would type it. */
const shownStep = ({ command, args }: Step): string => [command, ...args].map(shellWord).join(' ')
