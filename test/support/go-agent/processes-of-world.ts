import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import type { MigrationWorld } from '../../../src/installation/migration/migrate.ts'

/** Of all processes, those of the world in this folder: other runs of these tests may be under way on this machine. */
export function platformOfWorld(folder: string): MigrationWorld['platform'] {
  const platform = hostPlatform()
  return {
    processes: async () => {
      const all = await platform.processes()
      const own = all.filter(({ commandLine }) => commandLine.includes(folder))
      const groups = new Set(own.map(({ groupId }) => groupId))
      return all.filter(({ groupId }) => groups.has(groupId))
    },
    interfaces: () => platform.interfaces(),
  }
}
