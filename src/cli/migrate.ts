import { defaultModelStore } from '../agent-core/models/default-store.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import { defaultStateDir } from '../agent-core/state/state-folder.ts'
import { FlagError } from '../agent-core/util/go-flags.ts'
import { LinkError } from '../contract/client.ts'
import { formatDecimal } from '../contract/format.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import { findProgram, InstallationError, type InstallationHost } from '../installation/installation-host.ts'
import { inspect, type Inspection, type MigrationWorld, type OwnService } from '../installation/migration/inspect.ts'
import { confirm, migrate, undo, type MigrationResult } from '../installation/migration/migrate.ts'
import { planText } from '../installation/migration/plan.ts'
import { MigrationRecord, standingOf } from '../installation/migration/record.ts'
import { serviceLogFolder } from '../installation/service/service-plan.ts'
import { connect, VerbError } from './agent-session.ts'
import { exitCodes, isYes, type CliIo } from './io.ts'
import { parseRunArguments } from './run-settings.ts'
import { install } from './service/install.ts'
import { restart, uninstall } from './service/service.ts'
import { saying, serviceHost } from './service/service-host.ts'

export interface MigrateRequest {
  readonly deed: 'migrate' | 'plan' | 'undo' | 'confirm'
  readonly isConfirmed: boolean
  /** Also where this agent would refuse a service. */
  readonly anyway: boolean
  readonly stopsOthers: boolean
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
    if ((await findProgram(host.programFolders, 'launchctl')) === undefined) {
      throw new VerbError("LLMKube's Go agent runs only on macOS, so there is none to move here.")
    }
    const gaveUp = new AbortController()
    const world = worldOf({ host, platform }, io, gaveUp.signal)
    const record = await MigrationRecord.open(world.stateDir)
    return done(request, { world, record, io, gaveUp })
  })
}

interface Scene {
  readonly world: MigrationWorld
  readonly record: MigrationRecord
  readonly io: CliIo
  readonly gaveUp: AbortController
}

async function done(request: MigrateRequest, scene: Scene): Promise<number> {
  const { world, record } = scene
  switch (request.deed) {
    case 'undo':
      await toItsEnd(scene, () => undo(world, record))
      return exitCodes.done
    case 'confirm':
      await toItsEnd(scene, () => confirm(world, record))
      return exitCodes.done
    case 'plan':
    case 'migrate':
      return planned(request, scene)
  }
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * What would leave a paused Go agent behind is ended by no signal: the first has a move taken back, and taking back runs to its
 * end. A terminal that closes sends one too.
 */
async function toItsEnd<T>({ world, io, gaveUp }: Scene, work: () => Promise<T>): Promise<T> {
  const onSignal = (): void => {
    if (!gaveUp.signal.aborted) gaveUp.abort(new InstallationError('Given up.'))
  }
  for (const signal of signals) process.on(signal, onSignal)
  try {
    return await work()
  } catch (error) {
    const stands = await standingOf(world.stateDir, world.platform)
    if (stands !== undefined) io.stderr.write(`metal-agent: ${stands}\n`)
    throw error
  } finally {
    for (const signal of signals) process.removeListener(signal, onSignal)
  }
}

async function planned(request: MigrateRequest, scene: Scene): Promise<number> {
  const { world, record, io } = scene
  const before = record.value
  if (before?.phase === 'done') {
    io.stdout.write(
      `This Mac was moved on ${before.startedAt}: --undo goes back to the Go agent, --confirm removes what is kept for that.\n`,
    )
    return exitCodes.done
  }
  const stands = await standingOf(world.stateDir, world.platform)
  if (stands !== undefined) io.stdout.write(`${stands}\n\n`)
  if (before?.phase === 'undoing') return exitCodes.refused
  const begun = before?.phase === 'begun' ? before : undefined
  const { plist, flags, stopsOthers, deed, isConfirmed, anyway } = request
  const inspection = await inspect(world, { plist, ownFlags: flags, stopsOthers, begun })
  io.stdout.write(planText(inspection))
  const obstacle = obstacleIn(inspection, anyway)
  if (deed === 'plan' || obstacle !== undefined) {
    if (obstacle !== undefined) io.stderr.write(`metal-agent: ${obstacle}\n`)
    return obstacle === undefined ? exitCodes.done : exitCodes.refused
  }
  if (!isConfirmed && !(await agreed(io))) return exitCodes.refused
  return report(await toItsEnd(scene, () => migrate(world, inspection, record)), io)
}

function obstacleIn({ problems, refusals }: Inspection, anyway: boolean): string | undefined {
  if (problems.length > 0) return 'Nothing was started: see what is in the way.'
  if (refusals.length > 0 && !anyway) return 'Nothing was started: --anyway moves the others, and these stay unserved.'
  return undefined
}

async function agreed({ ask, stdout, stderr }: CliIo): Promise<boolean> {
  if (ask === undefined) {
    stderr.write('metal-agent: Nothing was started: run it again with --yes to do this.\n')
    return false
  }
  const isAgreed = isYes(await ask('\nDo this? [y/N] '))
  if (!isAgreed) stdout.write('Nothing was started.\n')
  return isAgreed
}

function report({ outcome, moved, isWell }: MigrationResult, io: CliIo): number {
  if (outcome === 'takenBack') {
    io.stdout.write('The Go agent serves as before; this agent was removed again.\n')
    return exitCodes.failed
  }
  const lines = moved.map(({ key, outageMs, failure }) =>
    failure === undefined
      ? `${key}: moved, ${formatDecimal(outageMs / 1_000)} s without an answer`
      : `${key}: not served: ${failure}`,
  )
  const end =
    'This agent serves now. "metal-agent migrate --undo" goes back to the Go agent, --confirm removes what is kept for that.'
  io.stdout.write(`${[...lines, end].join('\n')}\n`)
  return isWell ? exitCodes.done : exitCodes.failed
}

function worldOf({ host, platform }: Machine, io: CliIo, signal: AbortSignal): MigrationWorld {
  const { platform: system, env, user } = host
  const stateDir = defaultStateDir(system, env, user.homeDir)
  const ownStore = defaultModelStore(system, env, user.homeDir)
  return {
    host,
    platform,
    service: ownService(io, host),
    stateDir,
    ownStore,
    ownLog: serviceLogFolder(system === 'linux' ? 'systemdUser' : 'launchAgent', user.homeDir, stateDir),
    ownAgent: () => snapshotOf(io, stateDir),
    checkFlags: (flags) => {
      try {
        const asked = parseRunArguments(flags, { modelStore: ownStore, stateDir }, io.cwd)
        if (asked.kind !== 'run' || asked.settings.stateDir === stateDir) return undefined
        return `--state-dir ${asked.settings.stateDir} is another folder than ${stateDir}, which keeps what is needed to go back: leave it out.`
      } catch (error) {
        if (error instanceof FlagError) return error.message
        throw error
      }
    },
    tell: (sentence) => void io.stdout.write(`${sentence}\n`),
    signal,
  }
}

async function snapshotOf(io: CliIo, stateDir: string): Promise<AgentSnapshot | undefined> {
  try {
    await using agent = await connect({ io, stateDir })
    return await agent.snapshot()
  } catch (error) {
    if (error instanceof LinkError) return undefined
    throw error
  }
}

/** The verbs of the service, whose own sentences go where ours do. */
function ownService(io: CliIo, host: InstallationHost): OwnService {
  const succeeded = async (code: Promise<number>, what: string): Promise<void> => {
    if ((await code) !== exitCodes.done)
      throw new InstallationError(`The service was not ${what}: the lines above say why.`)
  }
  return {
    install: (flags) => succeeded(install({ flags, isMove: true }, io, host), 'installed'),
    uninstall: () => succeeded(uninstall(io, { keepServing: false, isConfirmed: true }, host), 'removed'),
    restart: () => succeeded(restart(io, host), 'restarted'),
  }
}
