import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hostPlatform } from '../src/agent-core/platform/host.ts'
import { Ledger } from '../src/agent-core/servers/ledger.ts'
import { Servers } from '../src/agent-core/servers/servers.ts'
import { held, lives, type Held } from '../test/support/server-lives.ts'
import { silentLog } from '../test/support/silent-log.ts'
import type { Group, Row, Unit } from './row.ts'

/** Allocations that happen once, such as compiled code and the first files of each key, are done by then. */
const warmUpLives = 100
const outputLimits = { bytes: 65_536, count: 2 }
const mebibytes = (bytes: number): number => bytes / 1024 ** 2

/** The resources not freed after many starts, crashes and stops of servers, measured in this process itself. */
export const resources: Group = {
  name: 'resources',
  measure: async (_, extent) => {
    if (extent.lives === 0) return []
    const folder = await mkdtemp(join(tmpdir(), 'metalbar-lives-'))
    await using opened = new AsyncDisposableStack()
    opened.defer(() => rm(folder, { recursive: true, force: true }))
    const platform = hostPlatform()
    const ledger = new Ledger({ file: join(folder, 'ledger.json'), platform, log: silentLog })
    const servers = opened.use(
      new Servers({ platform, ledger, stateDir: folder, log: silentLog, outputLimits: () => outputLimits }),
    )
    const runs = join(folder, 'runs')
    await lives({ servers }, warmUpLives)
    const before = await held(runs)
    await lives({ servers }, extent.lives)
    const after = await held(runs)
    const row = (what: string, unit: Unit, of: (one: Held) => number, goal?: number): Row => ({
      what: `${what} after ${extent.lives.toLocaleString('en')} lives`,
      unit,
      values: [of(after) - of(before)],
      ...(goal !== undefined && { goal }),
      note: `${of(before).toFixed(1)} before, ${of(after).toFixed(1)} after`,
    })
    return [
      row('open files', 'more', ({ openFiles }) => openFiles, 1),
      row('zombies', 'more', ({ zombies }) => zombies, 0),
      row('threads', 'more', ({ threads }) => threads, 1),
      row('log files', 'more', ({ logFiles }) => logFiles, 8),
      row('log disk', 'MiB', ({ logBytes }) => mebibytes(logBytes), 0.5),
      row('heap', 'MiB', ({ heapBytes }) => mebibytes(heapBytes), 2),
      // V8 keeps what it gave its young generation, up to 128 MiB: the heap is what tells a leak.
      row('resident memory', 'MiB', ({ residentBytes }) => mebibytes(residentBytes)),
    ]
  },
}
