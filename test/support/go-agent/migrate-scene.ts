import path from 'node:path'
import { tmpdir } from 'node:os'
import type { CliIo } from '../../../src/cli/io.ts'
import { migrateHere, type MigrateRequest } from '../../../src/cli/migrate.ts'
import { agentEntryVariable } from '../built-agent/entry.ts'
import type { GoAgentWorld } from './go-agent-world.ts'
import { platformOfWorld } from './processes-of-world.ts'

export const agentEntry =
  process.env[agentEntryVariable] ?? path.resolve(import.meta.dirname, '../../../src/cli/metal-agent.ts')

/** `metal-agent migrate` in this process, whose own command line is what the service is made of. */
export async function migrateVerb(scene: GoAgentWorld, change: Partial<MigrateRequest> = {}) {
  const { host, home } = scene
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
  const request = { undo: false, dryRun: false, isConfirmed: true, plist: undefined, flags: [], ...change }
  const { argv, execArgv } = process
  process.argv = [process.execPath, agentEntry]
  process.execArgv = []
  try {
    const code = await migrateHere(request, io, { host, platform: platformOfWorld(scene.cluster.folder) })
    return { code, ...output }
  } finally {
    Object.assign(process, { argv, execArgv })
  }
}
