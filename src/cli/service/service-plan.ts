import path from 'node:path'
import { defaultModelStore } from '../../agent-core/models/default-store.ts'
import { isWiped } from '../../agent-core/models/store/watch.ts'
import { allRows, type AgentSettings } from '../../agent-core/settings/settings.ts'
import { defaultStateDir } from '../../agent-core/state/state-folder.ts'
import { isSelfContained } from '../../agent-core/util/embedded.ts'
import { FlagError, parseGoFlags } from '../../agent-core/util/go-flags.ts'
import type { SettingRow } from '../../contract/settings-table.ts'
import type { InstallationHost } from '../../installation/installation-host.ts'
import {
  exitTimeoutS,
  serviceEnvironment,
  serviceLogFolder,
  type ServiceKind,
  type ServicePlan,
} from '../../installation/service/service-plan.ts'
import { copiedCommand } from '../../installation/command-copy.ts'
import { VerbError } from '../agent-session.ts'
import { flagTable, type FlagDefaults } from '../flags.ts'
import { parseRunArguments } from '../run-settings.ts'

export interface PlanRequest {
  readonly kind: ServiceKind
  readonly host: InstallationHost
  readonly cwd: string
  /** As a person gives them to the agent. */
  readonly args: readonly string[]
  /** Variables that a person states for the service. */
  readonly stated: Readonly<Record<string, string>>
}

/** What a service is to be, and what of the shell it does not get. Throws VerbError. */
export function planOf({ kind, host, cwd, args, stated }: PlanRequest): {
  readonly plan: ServicePlan
  readonly leftOut: readonly string[]
} {
  const { name, homeDir } = host.user
  const { flags, settings } = serviceFlags(args, { homeDir, defaults: defaultsOf(host), cwd })
  const { variables, leftOut } = serviceEnvironment(kind, host, stated)
  const plan: ServicePlan = {
    kind,
    program: programIn(settings.stateDir),
    flags,
    environment: variables,
    workingDirectory: homeDir,
    errorFile: path.join(serviceLogFolder(homeDir), 'metal-agent.err.log'),
    exitTimeoutS: exitTimeoutS(settings.drainLimitMs),
    ...(kind === 'launchDaemon' && { userName: name }),
  }
  return { plan, leftOut }
}

/** Those of the user whose service it is, which sudo may have changed for the one who installs it. */
export const defaultsOf = ({ platform, env, user }: InstallationHost): FlagDefaults => ({
  modelStore: defaultModelStore(platform, env, user.homeDir),
  stateDir: defaultStateDir(platform, env, user.homeDir),
})

/** This command as a service starts it: where it is self-contained from a place of its own, which is the same for every version. */
const programIn = (stateDir: string): readonly string[] =>
  isSelfContained()
    ? [copiedCommand(stateDir)]
    : [process.execPath, ...process.execArgv, path.resolve(process.argv[1] ?? '')]

/** This command, where it is one file that is copied to where the service starts it. */
export const ownCommand = (): string | undefined => (isSelfContained() ? process.execPath : undefined)

export interface ServiceFlags {
  /** By name, without dashes; what a service is started with. */
  readonly flags: ReadonlyMap<string, string>
  readonly settings: AgentSettings
}

interface Where {
  readonly homeDir: string
  readonly defaults: FlagDefaults
  readonly cwd: string
}

/** The agent's own parser judges them, before anything is written. Throws VerbError. */
export function serviceFlags(args: readonly string[], where: Where): ServiceFlags {
  const { homeDir, defaults, cwd } = where
  try {
    const request = parseRunArguments(args, defaults, cwd)
    if (request.kind !== 'run') {
      throw new VerbError(`--${request.kind} starts no agent, so a service cannot use it.`)
    }
    const { settings } = request
    const { stateDir, modelStore } = settings
    const logFile = settings.logFile ?? path.join(serviceLogFolder(homeDir), 'metal-agent.log')
    const own = { 'state-dir': stateDir, 'model-store': modelStore, 'log-file': logFile }
    const others = [...parseGoFlags(flagTable(defaults), args).texts].filter(([name]) => !(name in own))
    const flags = new Map([
      ...Object.entries(own),
      ...others.map(([name, text]) => [name, absolute(name, text, cwd)] as const),
    ])
    return { flags, settings }
  } catch (error) {
    if (error instanceof FlagError) throw new VerbError(error.message, { cause: error })
    throw error
  }
}

const rows = new Map(Object.values<SettingRow>(allRows).map((row) => [row.flag, row]))

/** A service is not started in the folder in which a person installs it. */
function absolute(name: string, text: string, cwd: string): string {
  const kind = rows.get(name)?.kind
  const isPath = kind === 'path' || (kind === 'executable' && text.includes('/'))
  return isPath && text !== '' ? path.resolve(cwd, text) : text
}

/** What a person should know of the folders that a service was given; it is theirs to decide. */
export function placeWarnings({ flags }: Pick<ServiceFlags, 'flags'>): string[] {
  return ['state-dir', 'model-store', 'log-file'].flatMap((name) => {
    const place = flags.get(name) ?? ''
    if (isWiped(place))
      return [`--${name} ${place} is in a folder that the system empties: what is kept there is lost.`]
    if (!/^\/Volumes\//.test(place)) return []
    return [
      `--${name} ${place} is on another volume: if it is not mounted when the service starts, the agent exits and restarts every 10 s until it is.`,
    ]
  })
}
