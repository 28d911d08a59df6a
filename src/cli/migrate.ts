import { defaultModelStore } from '../agent-core/models/default-store.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import { defaultStateDir } from '../agent-core/state/state-folder.ts'
import { FlagError } from '../agent-core/util/go-flags.ts'
import { InstallationError, type InstallationHost } from '../installation/installation-host.ts'
import {
  migrate,
  planMigration,
  planText,
  undoMigration,
  type MigrationWorld,
} from '../installation/migration/migrate.ts'
import { VerbError } from './agent-session.ts'
import { exitCodes, isYes, type CliIo } from './io.ts'
import { parseRunArguments } from './run-settings.ts'
import { install } from './service/install.ts'
import { uninstall } from './service/service.ts'
import { saying, serviceHost } from './service/service-host.ts'

export interface MigrateRequest {
  readonly undo: boolean
  /** Prints the plan and does nothing. */
  readonly dryRun: boolean
  readonly isConfirmed: boolean
  readonly plist: string | undefined
  /** For our agent. */
  readonly flags: readonly string[]
}

/** Where a move happens: this machine, but in tests. */
export interface Machine {
  readonly host: InstallationHost
  readonly platform: MigrationWorld['platform']
}

/** `metal-agent migrate`; answers the exit code. Throws VerbError. */
export function migrateHere(request: MigrateRequest, io: CliIo, given: Partial<Machine> = {}): Promise<number> {
  return saying(io, async () => {
    const { host = await serviceHost(io), platform = hostPlatform() } = given
    // A state folder that root made is none that the agent of this user takes.
    if (host.isRoot && host.user.id !== 0) {
      throw new VerbError(`The agent is installed for ${host.user.name}, not for root: run this again without sudo.`)
    }
    const world = worldOf({ host, platform }, io)
    if (request.undo) {
      await undoMigration(world)
      io.stdout.write('The Go agent runs again.\n')
      return exitCodes.done
    }
    const plan = await planMigration(world, { plist: request.plist, ownFlags: request.flags })
    io.stdout.write(planText(plan))
    if (plan.job === undefined || plan.problems.length > 0) {
      io.stderr.write('metal-agent: Nothing was changed: see what is in the way.\n')
      return exitCodes.refused
    }
    if (request.dryRun) return exitCodes.done
    if (!request.isConfirmed && !(await agreed(io))) return exitCodes.refused
    await migrate(world, plan, plan.job)
    io.stdout.write('This agent serves now. "metal-agent migrate --undo" goes back to the Go agent.\n')
    return exitCodes.done
  })
}

async function agreed({ ask, stdout, stderr }: CliIo): Promise<boolean> {
  if (ask === undefined) {
    stderr.write('metal-agent: Nothing was changed: run it again with --yes to do this.\n')
    return false
  }
  const isAgreed = isYes(await ask('\nDo this? [y/N] '))
  if (!isAgreed) stdout.write('Nothing was changed.\n')
  return isAgreed
}

function worldOf({ host, platform }: Machine, io: CliIo): MigrationWorld {
  const { env, user } = host
  const defaults = {
    stateDir: defaultStateDir(host.platform, env, user.homeDir),
    modelStore: defaultModelStore(host.platform, env, user.homeDir),
  }
  const succeeded = async (code: Promise<number>, what: string): Promise<void> => {
    if ((await code) !== exitCodes.done) {
      throw new InstallationError(`The service was not ${what}: the lines above say why.`)
    }
  }
  return {
    host,
    platform,
    service: {
      install: (flags) => succeeded(install({ flags, isMove: true }, io, host), 'installed'),
      uninstall: () => succeeded(uninstall(io, { keepServing: false, isConfirmed: true }, host), 'removed'),
    },
    checkFlags: (flags) => {
      try {
        const asked = parseRunArguments(flags, defaults, io.cwd)
        return asked.kind === 'run' ? undefined : `--${asked.kind} starts no agent: leave it out.`
      } catch (error) {
        if (error instanceof FlagError) return error.message
        throw error
      }
    },
    tell: (sentence) => void io.stdout.write(`${sentence}\n`),
  }
}
