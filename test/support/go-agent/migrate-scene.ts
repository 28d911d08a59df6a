import path from 'node:path'
import { tmpdir } from 'node:os'
import { execa } from 'execa'
import type { CliIo } from '../../../src/cli/io.ts'
import { migrateHere, type MigrateRequest } from '../../../src/cli/migrate.ts'
import type { InstallationHost } from '../../../src/installation/installation-host.ts'
import { agentEntryVariable } from '../built-agent/entry.ts'
import { compileCacheOfRun } from '../compile-cache/compile-cache.ts'
import type { GoAgentWorld } from './go-agent-world.ts'

/** What `migrate-process.ts` is told. */
export interface MigrateScene {
  readonly host: InstallationHost
  readonly folder: string
  /** Of the agent that is installed. */
  readonly entry: string
  readonly request: MigrateRequest
  readonly signals: readonly SignalAt[]
}

interface SignalAt {
  readonly at: string
  readonly signal: NodeJS.Signals
}

export const sceneVariable = 'METALBAR_TEST_MIGRATE_SCENE'

export const agentEntry =
  process.env[agentEntryVariable] ?? path.resolve(import.meta.dirname, '../../../src/cli/metal-agent.ts')

const requestOf = (deed: MigrateRequest['deed']): MigrateRequest => ({
  deed,
  isConfirmed: true,
  anyway: false,
  stopsOthers: false,
  plist: undefined,
  // A trial with a relay needs the ingress port, which agents of other tests may hold.
  flags: deed === 'migrate' ? ['--publish', 'direct'] : [],
})

/** What a verb in this process may know; what it says is in `said` and `complained`. */
export function ioOf({ host, home }: GoAgentWorld) {
  const output = { said: '', complained: '' }
  const io: CliIo = {
    stdout: { write: (text) => void (output.said += text) },
    stderr: { write: (text) => void (output.complained += text) },
    env: host.env,
    platform: 'darwin',
    homeDir: home,
    temporaryDir: tmpdir(),
    cwd: home,
    windowFolder: home,
  }
  return { io, output }
}

/** `metal-agent migrate` in this process, whose own command line is what the service is made of. */
export async function migrateVerb(scene: GoAgentWorld, deed: MigrateRequest['deed']) {
  const { io, output } = ioOf(scene)
  const { argv, execArgv } = process
  process.argv = [process.execPath, agentEntry]
  process.execArgv = []
  try {
    const code = await migrateHere(requestOf(deed), io, { host: scene.host, platform: scene.platform() })
    return { code, ...output }
  } finally {
    Object.assign(process, { argv, execArgv })
  }
}

/** The same as a process of its own, which gets these signals, in this order. */
export async function migrateProcess(
  { host, cluster }: GoAgentWorld,
  deed: MigrateRequest['deed'],
  ...signals: SignalAt[]
) {
  const told: MigrateScene = { host, folder: cluster.folder, entry: agentEntry, request: requestOf(deed), signals }
  const script = path.join(import.meta.dirname, 'migrate-process.ts')
  const { exitCode, signal, stdout, stderr } = await execa(process.execPath, [script], {
    env: { ...host.env, ...compileCacheOfRun(), [sceneVariable]: JSON.stringify(told) },
    extendEnv: false,
    reject: false,
    // By its command line it would count as a process of this world, whose group is the one of the tests.
    detached: true,
  })
  return { exitCode, signal, said: stdout, complained: stderr }
}
