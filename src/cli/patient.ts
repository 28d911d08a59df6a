import path from 'node:path'
import type { Patient } from '../agent-core/doctor/doctor.ts'
import type { AgentSettings } from '../agent-core/settings/settings.ts'
import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { FlagError } from '../agent-core/util/go-flags.ts'
import { VerbError } from './agent-session.ts'
import type { FlagDefaults } from './flags.ts'
import type { CliIo } from './io.ts'

export interface PatientWish {
  readonly stateDir: string
  /** As the agent takes them: what the installed service says, and after it what a person wrote for this look. */
  readonly flags: readonly string[]
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

/**
 * This machine where no agent runs, as one would find it: with the flags of the installed service, the settings and the context that a person
 * chose. What is wrong with those files goes to standard error, and nothing of them is changed. Throws VerbError.
 */
export async function patientHere(io: CliIo, wish: PatientWish): Promise<Patient> {
  const [{ hostPlatform }, { PersonSettings }, { ClusterChoice, ContextPin }] = await Promise.all([
    import('../agent-core/platform/host.ts'),
    import('../agent-core/settings/person-settings.ts'),
    import('../agent-core/cluster/cluster-choice.ts'),
  ])
  const [{ hostAddress }, { localCluster }, { powerRule }, { runtimesHere }, { isGateway }] = await Promise.all([
    import('../agent-core/publishing/host-address.ts'),
    import('../agent-core/publishing/local-cluster.ts'),
    import('../agent-core/api/machine-queries.ts'),
    import('./runtimes.ts'),
    import('../agent-core/gateway/gateway.ts'),
  ])
  const stateDir = path.resolve(io.cwd, wish.stateDir)
  const persons = await PersonSettings.look(await startedAs(io, wish), path.join(stateDir, 'settings.json'))
  const pin = await ContextPin.open({ stateDir, log: silent, isOnlyLookedAt: true })
  for (const notice of [...persons.notices, pin.notice]) {
    if (notice !== undefined) io.stderr.write(`metal-agent: ${notice}\n`)
  }
  const settings = persons.current
  const platform = hostPlatform(io.platform)
  const choice = new ClusterChoice({
    ...{ kubeconfig: () => settings.kubeconfig, context: () => settings.context },
    ...{ isContextStated: () => persons.hasContextFlag, pin, env: io.env },
  })
  let loaded: ReturnType<typeof choice.load> | undefined
  const context = () => (loaded ??= choice.load())
  const socketPath = socketPathFor(stateDir, io.temporaryDir, 'gateway.sock')
  const commandLine = async (pid: number) => (await platform.process(pid))?.commandLine
  return {
    ...{ platform, env: io.env, settings, context, agent: undefined },
    runtimes: () => runtimesHere(io, settings),
    powerRule: () => powerRule({ platform: platform.name }),
    isOwnGateway: (pid) => isGateway(pid, { commandLine, socketPath }),
    hostAddress: async () => {
      const pinned = await context().catch(() => undefined)
      const wanted = persons.hostAddress
      return hostAddress({
        explicit: wanted.by === 'automatic' ? undefined : wanted,
        server: pinned?.server ?? 'https://127.0.0.1',
        local: pinned && localCluster(pinned.stated, platform),
        interfaces: () => platform.interfaces(),
      })
    },
  }
}

/** What an agent of this state folder would be started with. */
async function startedAs(io: CliIo, { stateDir, flags }: PatientWish): Promise<AgentSettings> {
  const [{ parseRunArguments }, { defaultModelStore }] = await Promise.all([
    import('./run-settings.ts'),
    import('../agent-core/models/default-store.ts'),
  ])
  const folder = path.resolve(io.cwd, stateDir)
  const defaults: FlagDefaults = {
    modelStore: defaultModelStore(io.platform, io.env, io.homeDir),
    stateDir: folder,
  }
  const ofService = await flagsOfService(io, folder)
  try {
    parseRunArguments(ofService, defaults, io.cwd)
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    // With it no agent starts: whoever asks what is wrong is to be told, and of all else too.
    io.stderr.write(`metal-agent: The installed service has a flag that this version does not have: ${error.message}\n`)
    ofService.length = 0
  }
  try {
    const asked = parseRunArguments([...ofService, ...flags], defaults, io.cwd)
    if (asked.kind === 'run') return asked.settings
    throw new VerbError('What follows -- are flags of the agent that choose how it runs.')
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    throw new VerbError(error.message)
  }
}

/** Those of the service that starts the agent of this state folder; none where there is no such service, or its file cannot be read. */
async function flagsOfService({ platform, env, homeDir }: CliIo, stateDir: string): Promise<string[]> {
  if ((platform !== 'darwin' && platform !== 'linux') || !path.isAbsolute(homeDir)) return []
  const [{ hostOfThisUser, InstallationError }, { installedServices }] = await Promise.all([
    import('../installation/installation-host.ts'),
    import('../installation/service/service.ts'),
  ])
  try {
    const services = await installedServices(hostOfThisUser({ platform, env, homeDir }))
    const plan = services.map((one) => one.plan).find((one) => one?.flags.get('state-dir') === stateDir)
    return [...(plan?.flags ?? [])].map(([name, value]) => `--${name}=${value}`)
  } catch (error) {
    if (!(error instanceof InstallationError)) throw error
    return []
  }
}
