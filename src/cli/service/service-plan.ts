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
import { serviceCommandIn, versionedCopyOf } from '../../installation/versioned-copy.ts'
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

/** This command as a service starts it: where it is self-contained from a place of its own, which is the same for every version. */
export const programFor = (plan: PlanWithoutProgram): readonly string[] =>
  isSelfContained()
    ? [serviceCommandIn(stateDirOf(plan))]
    : [process.execPath, ...process.execArgv, path.resolve(process.argv[1] ?? '')]

/**
 * Copies this command below the state folder, where it outlives the app; answers the copy, which is yet to take the service's place. Undefined
 * where the command is not one file. Throws CopyError.
 */
export async function copyFor(
  plan: PlanWithoutProgram,
  host: InstallationHost,
  inUse: readonly string[],
): Promise<string | undefined> {
  if (!isSelfContained()) return undefined
  const request = { command: process.execPath, version: buildInfo.version, stateDir: stateDirOf(plan), inUse }
  return (await asOwner(host, () => versionedCopyOf(request))).command
}
