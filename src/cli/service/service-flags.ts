import path from 'node:path'
import { allRows, type AgentSettings } from '../../agent-core/settings/settings.ts'
import { FlagError, parseGoFlags } from '../../agent-core/util/go-flags.ts'
import type { SettingRow } from '../../contract/settings-table.ts'
import { serviceLogFolder, type ServiceKind } from '../../installation/service/service-plan.ts'
import { VerbError } from '../agent-session.ts'
import { flagTable, type FlagDefaults } from '../flags.ts'
import { parseRunArguments } from '../run-settings.ts'

export interface ServiceFlags {
  /** By name, without dashes; what a service is started with. */
  readonly flags: ReadonlyMap<string, string>
  readonly settings: AgentSettings
}

interface Where {
  readonly kind: ServiceKind
  readonly homeDir: string
  readonly defaults: FlagDefaults
  readonly cwd: string
}

/** The agent's own parser judges them, before anything is written. Throws VerbError. */
export function serviceFlags(args: readonly string[], where: Where): ServiceFlags {
  const { kind, homeDir, defaults, cwd } = where
  try {
    const request = parseRunArguments(args, defaults, cwd)
    if (request.kind !== 'run') {
      throw new VerbError(`--${request.kind} starts no agent, so no service can have it.`)
    }
    const { settings } = request
    const { stateDir, modelStore } = settings
    const logFile = settings.logFile ?? path.join(serviceLogFolder(kind, homeDir, stateDir), 'metal-agent.log')
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

export const asArguments = (flags: ReadonlyMap<string, string>): string[] =>
  [...flags].map(([name, text]) => `--${name}=${text}`)

const rows = new Map(Object.values<SettingRow>(allRows).map((row) => [row.flag, row]))

/** A service is not started in the folder in which a person installs it. */
function absolute(name: string, text: string, cwd: string): string {
  const kind = rows.get(name)?.kind
  const isPath = kind === 'path' || (kind === 'executable' && text.includes('/'))
  return isPath && text !== '' ? path.resolve(cwd, text) : text
}

/** Folders that a reboot or a clean-up empties. */
const wiped = /^(?:\/private)?(?:\/tmp|\/var\/tmp|\/var\/folders)(?:\/|$)/

/** What a person should know of the folders that a service was given; it is theirs to decide. */
export function placeWarnings({ flags }: Pick<ServiceFlags, 'flags'>): string[] {
  return ['state-dir', 'model-store', 'log-file'].flatMap((name) => {
    const place = flags.get(name) ?? ''
    if (wiped.test(place))
      return [`--${name} ${place} is in a folder that the system empties: what is kept there is lost.`]
    if (!/^\/(?:Volumes|media|mnt)\//.test(place)) return []
    return [
      `--${name} ${place} is on another volume: where it is not there when the service starts, the agent ends and is started anew every 10 s until it is.`,
    ]
  })
}
