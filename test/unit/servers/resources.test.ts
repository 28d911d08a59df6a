import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { execa } from 'execa'
import { describe, expect, test } from 'vitest'
import { held, lives } from '../../support/server-lives.ts'
import { skipWhen } from '../../support/skip.ts'
import { ServerRoom } from './server-room.ts'

const outputBytes = 65_536

describe('over many lives of servers', () => {
  skipWhen(process.platform === 'linux' ? undefined : 'open files and zombies are counted in /proc, which is Linux')

  test('open files, zombies, threads, log disk and the heap stay flat', async () => {
    await using room = await ServerRoom.create({ outputBytes })
    const runs = join(room.folder, 'runs')
    await lives(room, 24)
    room.changes.length = 0
    const before = await held(runs)
    await lives(room, 60)
    room.changes.length = 0
    const after = await held(runs)
    const keys = 4
    const grown = {
      openFiles: after.openFiles > before.openFiles + 1,
      zombies: after.zombies,
      threads: after.threads > before.threads + 1,
      tooManyLogFiles: after.logFiles > keys * 4,
      tooManyLogBytes: after.logBytes > keys * 4 * outputBytes,
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

test('an agent that may open no more files takes none of it for silence of its servers, cuts no request and loses no port', async () => {
  const program = fileURLToPath(new URL('agent-out-of-descriptors.ts', import.meta.url))
  const { stdout } = await execa('/bin/sh', ['-c', 'ulimit -n 96 && exec "$0" "$1"', process.execPath, program])
  const said = JSON.parse(stdout) as Record<string, unknown> & { readonly pid: number }
  const why = 'this agent has reached the limit of open files and connections for one process (EMFILE)'
  expect(said).toEqual({
    meanwhile: [
      { kind: 'cannotAsk', reason: why },
      { kind: 'cannotAsk' },
      `Port PORT cannot be used: ${why}.`,
      `Port PORT cannot be used: ${why}.`,
      why,
    ],
    afterwards: [2, 0, 1],
    pid: said.pid,
    state: expect.objectContaining({ kind: 'ready', pid: said.pid, healthy: true }) as unknown,
    answer: 'answered',
    stopped: true,
  })
})
