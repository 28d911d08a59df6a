import path from 'node:path'
import { Command } from 'commander'
import { z } from 'zod'
import { hostPlatform } from '../agent-core/platform/host.ts'
import type { GettingPlan } from '../agent-core/runtimes/getting.ts'
import type { AgentSettings } from '../agent-core/settings/settings.ts'
import { cleanText } from '../contract/clean-text.ts'
import { type Installer, installer, type RuntimeDeed, runtimeDeed } from '../contract/commands.ts'
import { runtimeState, type RuntimeView } from '../contract/queries.ts'
import { agentVerb, group, ifAgentRuns, sayingLinkErrors, VerbError, type VerbContext } from './agent-session.ts'
import { type CliIo, columns, exitCodes, isYes } from './io.ts'

/** What is installed here, and what installs, updates and removes it. */
export function runtimesCommand(context: VerbContext): Command {
  const list = agentVerb('list', 'list which runtimes are installed here, and whether they run', context).action(
    async (options: unknown) => {
      const { io, end } = context
      const { json, stateDir } = listOptions.parse(options)
      const { startRows } = await import('../agent-core/settings/start-rows.ts')
      const code = await sayingLinkErrors(io, async () => {
        const asked = await ifAgentRuns(context, options, (agent) => agent.query({ name: 'runtimes' }))
        if (!asked) io.stderr.write(`${lookedHere}\n`)
        const ports = { ollamaPort: startRows.ollamaPort.default, omlxPort: startRows.omlxPort.default }
        const here = { stateDir: path.resolve(io.cwd, stateDir), ...ports }
        const views = asked?.runtimes ?? (await runtimesHere(io, here))
        const all = views.map((view) => ({ ...view, state: runtimeState(view) }))
        io.stdout.write(json ? `${JSON.stringify({ runtimes: all }, null, 2)}\n` : renderRuntimes(all))
        return exitCodes.done
      })
      end(code)
    },
  )
  const verbs = runtimeDeed.options.map((deed) => deedCommand(deed, context))
  return group('runtimes', 'show which runtimes are installed here, install and update them', [list, ...verbs])
}

const listOptions = z.object({ json: z.boolean().default(false), stateDir: z.string() })

const descriptions: Readonly<Record<RuntimeDeed, string>> = {
  install: 'install one with Homebrew, uv or pip, after showing you the commands',
  update: 'update one; the version before it is kept if Metalbar installed it',
  rollback: 'go back to the version before the last update',
  remove: 'remove one that Homebrew or Metalbar installed',
}

function deedCommand(deed: RuntimeDeed, { io, end, defaultStateDir }: VerbContext): Command {
  const verb = new Command(deed)
    .description(descriptions[deed])
    .argument('<runtime>', 'its name, as metal-agent runtimes shows it')
    .option('--yes', 'do not ask for confirmation')
    .option('--state-dir <folder>', 'state folder of the agent', defaultStateDir)
  if (deed === 'install' || deed === 'update')
    verb.option('--with <installer>', `what installs it: ${installer.options.join(', ')}`)
  return verb.action(async (name: string, given: unknown) => {
    const parsed = deedOptions.safeParse(given)
    if (!parsed.success) throw new VerbError(`--with takes ${installer.options.join(', ')}.`)
    const { yes, stateDir, with: by } = parsed.data
    end(await carriedOut(io, { name, deed, yes, stateDir: path.resolve(io.cwd, stateDir), by }))
  })
}

const deedOptions = z.object({
  yes: z.boolean().default(false),
  stateDir: z.string(),
  with: installer.optional(),
})

interface Wish {
  readonly name: string
  readonly deed: RuntimeDeed
  readonly yes: boolean
  readonly stateDir: string
  readonly by: Installer | undefined
}

/** Shows the commands, asks, and runs them; Ctrl-C leaves what was there before. Answers the exit code. */
async function carriedOut(io: CliIo, { name, deed, yes, stateDir, by }: Wish): Promise<number> {
  const { carryOut, GettingError, planFor } = await import('../agent-core/runtimes/getting.ts')
  const { serverRuntimes } = await import('../agent-core/servers/probe.ts')
  const runtime = serverRuntimes.find((one) => one === name)
  if (runtime === undefined)
    throw new VerbError(`There is no runtime ${JSON.stringify(name)}: use ${serverRuntimes.join(', ')}.`)
  const platform = hostPlatform(io.platform)
  const options = { stateDir, system: platform.name, env: io.env }
  const interrupted = new AbortController()
  const onInterrupt = (): void => interrupted.abort(new GettingError('Interrupted: nothing was changed.'))
  try {
    const plan = await planFor(runtime, deed, options, by)
    io.stdout.write(`${planText(plan)}\n`)
    if (!yes && !(await isAgreed(io))) return exitCodes.refused
    process.once('SIGINT', onInterrupt).once('SIGTERM', onInterrupt)
    const onOutput = (text: string): unknown => io.stdout.write(text)
    const sentence = await carryOut(plan, { ...options, platform, onOutput, signal: interrupted.signal })
    io.stdout.write(`${sentence}\n`)
    return exitCodes.done
  } catch (error) {
    if (!(error instanceof GettingError)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    return exitCodes.failed
  } finally {
    process.off('SIGINT', onInterrupt).off('SIGTERM', onInterrupt)
  }
}

async function isAgreed(io: CliIo): Promise<boolean> {
  if (!io.ask) {
    io.stderr.write('metal-agent: There is no terminal to confirm on: run it again with --yes.\n')
    return false
  }
  return isYes(await io.ask('Do it? [y/N] '))
}

/** What a person agrees to. */
function planText({ runtime, deed, commands, environment = '' }: GettingPlan): string {
  if (commands.length > 0)
    return `${runtime}: these commands will run.\n${commands.map((line) => `  ${line}\n`).join('')}`
  return deed === 'rollback'
    ? `${runtime}: will go back to ${environment}.`
    : `${runtime}: ${environment} will be deleted.`
}

const lookedHere =
  'No agent is running here: this is what this terminal finds with its PATH, without the settings of an agent.'

type RuntimeSettings = Pick<AgentSettings, 'stateDir' | 'ollamaPort' | 'omlxPort'> & Partial<AgentSettings>

/** What this terminal finds with these settings. */
export async function runtimesHere(
  { env, platform }: CliIo,
  settings: RuntimeSettings,
): Promise<readonly RuntimeView[]> {
  const { Dialects } = await import('../agent-core/runtimes/dialect.ts')
  const { findRuntime, InstalledRuntimes } = await import('../agent-core/runtimes/installed.ts')
  const { serverRuntimes } = await import('../agent-core/servers/probe.ts')
  const search = { stateDir: settings.stateDir, system: hostPlatform(platform).name, path: env['PATH'], settings }
  const installed = new InstalledRuntimes({
    offered: () => settings.runtimes ?? serverRuntimes,
    find: (runtime) => findRuntime(runtime, search),
    dialects: new Dialects(),
  })
  return installed.look()
}

/** A table, and below it a sentence for each runtime that cannot be used, with the line that installs it. */
function renderRuntimes(views: readonly (RuntimeView & { readonly state: string })[]): string {
  const rows = views.map(({ name, version = '', formats, state, path = '' }) => [
    name,
    version,
    formats.join(', '),
    state,
    path,
  ])
  const sentences = views.flatMap(({ message }) => (message === undefined ? [] : [`\n${cleanText(message)}\n`]))
  return `${columns(['RUNTIME', 'VERSION', 'FORMATS', 'STATE', 'PATH'], rows)}${sentences.join('')}`
}
