import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { held, lives } from '../../support/server-lives.ts'
import { skipWhen } from '../../support/skip.ts'
import { ServerRoom } from './server-room.ts'

const outputLimits = { bytes: 65_536, count: 2 }

describe('over many lives of servers', () => {
  skipWhen(process.platform === 'linux' ? undefined : 'open files and zombies are counted in /proc, which is Linux')

  test('open files, zombies, threads, log disk and the heap stay flat', async () => {
    await using room = await ServerRoom.create({ outputLimits: () => outputLimits })
    const runs = join(room.folder, 'runs')
    await lives(room, 40)
    room.changes.length = 0
    const before = await held(runs)
    await lives(room, 100)
    room.changes.length = 0
    const after = await held(runs)
    const keys = 4
    const grown = {
      openFiles: after.openFiles > before.openFiles + 1,
      zombies: after.zombies,
      threads: after.threads > before.threads + 1,
      tooManyLogFiles: after.logFiles > keys * (2 + outputLimits.count),
      tooManyLogBytes: after.logBytes > keys * (2 + outputLimits.count) * outputLimits.bytes,
      heap: after.heapBytes - before.heapBytes > 2e6,
    }
    expect(grown).toEqual({
      openFiles: false,
      zombies: 0,
      threads: false,
      tooManyLogFiles: false,
      tooManyLogBytes: false,
      heap: false,
    })
  }, 300_000)
})
