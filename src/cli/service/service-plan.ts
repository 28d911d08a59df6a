import path from 'node:path'
import { buildInfo } from '../../agent-core/agent/build-info.ts'
import { defaultModelStore } from '../../agent-core/models/default-store.ts'
import { defaultStateDir } from '../../agent-core/state/state-folder.ts'
import { isSelfContained } from '../../agent-core/util/embedded.ts'
import { asOwner, type InstallationHost } from '../../installation/installation-host.ts'
import { stateDirOf } from '../../installation/service/hand-over.ts'
import {
  exitTimeoutS,
  serviceEnvironment,
  serviceLogFolder,
  type ServiceKind,
  type ServicePlan,
} from '../../installation/service/service-plan.ts'
import { placeOfCopy, versionedCopyOf } from '../../installation/versioned-copy.ts'
import type { FlagDefaults } from '../flags.ts'
import { serviceFlags } from './service-flags.ts'

export interface PlanRequest {
  readonly kind: ServiceKind
  readonly host: InstallationHost
  readonly cwd: string
  /** As a person gives them to the agent. */
  readonly args: readonly string[]
  /** Variables that a person states for the service. */
  readonly stated: Readonly<Record<string, string>>
}

/** All of a service but its command. */
export type PlanWithoutProgram = Omit<ServicePlan, 'program'>

/** What a service is to be, and what of the shell it does not get. Throws VerbError. */
export function planOf({ kind, host, cwd, args, stated }: PlanRequest): {
  readonly plan: PlanWithoutProgram
  readonly leftOut: readonly string[]
} {
  const { name, homeDir } = host.user
  const { flags, settings } = serviceFlags(args, { kind, homeDir, defaults: defaultsOf(host), cwd })
  const { variables, leftOut } = serviceEnvironment(kind, host, stated)
  const plan: PlanWithoutProgram = {
    kind,
    flags,
    environment: variables,
    workingDirectory: homeDir,
    errorFile: path.join(serviceLogFolder(kind, homeDir, settings.stateDir), 'metal-agent.err.log'),
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

/**
 * This command as another process starts it. Where it is self-contained that is a copy, which outlives the app: `make`, or else only where it
 * would be. Throws CopyError.
 */
export async function programFor(
  plan: PlanWithoutProgram,
  host: InstallationHost,
  { make, inUse = [] }: { readonly make: boolean; readonly inUse?: readonly string[] },
): Promise<readonly string[]> {
  if (!isSelfContained()) return [process.execPath, ...process.execArgv, path.resolve(process.argv[1] ?? '')]
  const request = { command: process.execPath, version: buildInfo.version, stateDir: stateDirOf(plan), inUse }
  if (!make) return [await placeOfCopy(request)]
  const { command } = await asOwner(host, () => versionedCopyOf(request))
  return [command]
}
