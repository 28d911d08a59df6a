import { Command } from 'commander'
import { z } from 'zod'
import { hostPlatform } from '../agent-core/platform/host.ts'
import type { AgentSettings } from '../agent-core/settings/settings.ts'
import { cleanText } from '../contract/clean-text.ts'
import { runtimeState, type RuntimeView } from '../contract/queries.ts'
import { agentVerb, group, ifAgentRuns, sayingLinkErrors, VerbError, type VerbContext } from './agent-session.ts'
import { type CliIo, columns, exitCodes, isYes } from './io.ts'

/** What is installed here, and what installs it. */
export function runtimesCommand(context: VerbContext): Command {
  const list = agentVerb('list', 'list which runtimes are installed here, and whether they run', context).action(
    async (options: unknown) => {
      const { io, end } = context
      const { json } = listOptions.parse(options)
      const { startRows } = await import('../agent-core/settings/start-rows.ts')
      const code = await sayingLinkErrors(io, async () => {
        const asked = await ifAgentRuns(context, options, (agent) => agent.query({ name: 'runtimes' }))
        if (!asked) io.stderr.write(`${lookedHere}\n`)
        const ports = { ollamaPort: startRows.ollamaPort.default, omlxPort: startRows.omlxPort.default }
        const views = asked?.runtimes ?? (await runtimesHere(io, ports))
        const all = views.map((view) => ({ ...view, state: runtimeState(view) }))
        io.stdout.write(json ? `${JSON.stringify({ runtimes: all }, null, 2)}\n` : renderRuntimes(all))
        return exitCodes.done
      })
      end(code)
    },
  )
  return group('runtimes', 'show which runtimes are installed here, and install one', [list, installVerb(context)])
}

const listOptions = z.object({ json: z.boolean().default(false) })

function installVerb({ io, end }: VerbContext): Command {
  return new Command('install')
    .description('install one with Homebrew, uv or pip, after showing you the command')
    .argument('<runtime>', 'its name, as metal-agent runtimes shows it')
    .option('--yes', 'do not ask for confirmation')
    .action(async (name: string, given: unknown) => {
      const { yes } = installOptions.parse(given)
      end(await installed(io, { name, yes }))
    })
}

const installOptions = z.object({ yes: z.boolean().default(false) })

interface Wish {
  readonly name: string
  readonly yes: boolean
}

/** Shows the command, asks, runs it in this terminal, and says what is here then. Answers the exit code. */
async function installed(io: CliIo, { name, yes }: Wish): Promise<number> {
  const { installCommand } = await import('../agent-core/runtimes/install-command.ts')
  const { startRows } = await import('../agent-core/settings/start-rows.ts')
  const settings = { ollamaPort: startRows.ollamaPort.default, omlxPort: startRows.omlxPort.default }
  const look = async () => (await runtimesHere(io, settings)).find((one) => one.name === name)
  const before = await look()
  if (!before) {
    const { serverRuntimes } = await import('../agent-core/servers/probe.ts')
    throw new VerbError(`There is no runtime ${JSON.stringify(name)}: use ${serverRuntimes.join(', ')}.`)
  }
  if (before.path !== undefined) {
    io.stdout.write(`${name} is already here: ${before.path}.\n`)
    return exitCodes.done
  }
  const line = await installCommand(name, { system: hostPlatform(io.platform).name, path: io.env['PATH'] })
  if (line === undefined) {
    io.stderr.write(`metal-agent: Nothing on this machine can install ${name}. ${before.message ?? ''}\n`)
    return exitCodes.failed
  }
  io.stdout.write(`This command will run:\n  ${line}\n`)
  if (!yes && !(await isAgreed(io))) return exitCodes.refused
  const { execa } = await import('execa')
  const { failed } = await execa('/bin/sh', ['-c', line], { stdio: 'inherit', env: io.env, reject: false })
  if (failed) {
    io.stderr.write('metal-agent: The command failed: see what it printed above.\n')
    return exitCodes.failed
  }
  const { version, message } = (await look()) ?? {}
  io.stdout.write(message === undefined ? `${name} ${version ?? ''} is installed.\n` : `${cleanText(message)}\n`)
  return exitCodes.done
}

async function isAgreed(io: CliIo): Promise<boolean> {
  if (!io.ask) {
    io.stderr.write('metal-agent: There is no terminal to confirm on: run it again with --yes.\n')
    return false
  }
  return isYes(await io.ask('Do it? [y/N] '))
}

const lookedHere =
  'No agent is running here: this is what this terminal finds with its PATH, without the settings of an agent.'

type RuntimeSettings = Pick<AgentSettings, 'ollamaPort' | 'omlxPort'> & Partial<AgentSettings>

/** What this terminal finds with these settings. */
export async function runtimesHere(
  { env, platform }: CliIo,
  settings: RuntimeSettings,
): Promise<readonly RuntimeView[]> {
  const { Dialects } = await import('../agent-core/runtimes/dialect.ts')
  const { findRuntime, InstalledRuntimes } = await import('../agent-core/runtimes/installed.ts')
  const { serverRuntimes } = await import('../agent-core/servers/probe.ts')
  const search = { system: hostPlatform(platform).name, path: env['PATH'], settings }
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
