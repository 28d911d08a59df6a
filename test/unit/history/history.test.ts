import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { History } from '../../../src/agent-core/history/history.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const now = () => Date.parse('2026-01-02T03:04:05Z')
const tiny = { namespace: 'ns', name: 'tiny' }
const log = silentLog

const openIn = (folder: string) => History.open({ file: join(folder, 'history.jsonl'), log, now })

test('entries are told newest first, up to a limit, of one service or of all', async () => {
  await using folder = await temporaryFolder()
  const history = await openIn(folder.dir)
  history.add({ kind: 'agentStarted', message: 'Started.' })
  for (let port = 1; port <= 3; port += 1) history.add({ kind: 'ready', service: tiny, message: `Port ${port}.` })
  history.add({ kind: 'ready', service: { namespace: 'other', name: 'tiny' }, message: 'Elsewhere.' })
  const at = '2026-01-02T03:04:05.000Z'
  expect([
    history.page({ service: tiny, limit: 2 }),
    history.page({ service: tiny, limit: 3 }).hasMore,
    history.page({ limit: 1 }),
  ]).toEqual([
    {
      entries: [
        { id: 4, at, kind: 'ready', service: tiny, message: 'Port 3.' },
        { id: 3, at, kind: 'ready', service: tiny, message: 'Port 2.' },
      ],
      hasMore: true,
    },
    false,
    { entries: [expect.objectContaining({ id: 5 })], hasMore: true },
  ])
  await history.flush()
})

test('it is kept over restarts, and ids go on', async () => {
  await using folder = await temporaryFolder()
  const first = await openIn(folder.dir)
  first.add({ kind: 'agentStarted', message: 'One.' })
  first.add({ kind: 'agentStopped', message: 'Two.' })
  await first.flush()
  const second = await openIn(folder.dir)
  second.add({ kind: 'agentStarted', message: 'Three.' })
  await second.flush()
  expect((await openIn(folder.dir)).page({ limit: 9 }).entries.map(({ id, message }) => [id, message])).toEqual([
    [3, 'Three.'],
    [2, 'Two.'],
    [1, 'One.'],
  ])
})

test('what takes an entry back is kept with it, and one that this agent does not know costs nothing else', async () => {
  await using folder = await temporaryFolder()
  const undo = { name: 'setHostAddress', address: 'automatic' } as const
  const first = await openIn(folder.dir)
  first.add({ kind: 'settingsChanged', message: 'One.', undo })
  await first.flush()
  const file = join(folder.dir, 'history.jsonl')
  const ofAnother = {
    id: 2,
    at: new Date(now()).toISOString(),
    kind: 'settingsChanged',
    message: 'Two.',
    undo: { name: 'unheardOf' },
  }
  await writeFile(file, `${await readFile(file, 'utf8')}${JSON.stringify(ofAnother)}\n`)
  const second = await openIn(folder.dir)
  expect([second.notice, second.page({ limit: 9 }).entries.map((entry) => [entry.message, entry.undo])]).toEqual([
    undefined,
    [
      ['Two.', undefined],
      ['One.', undo],
    ],
  ])
})

test('an entry that was cut off by the end of the agent is left out, with a notice once', async () => {
  await using folder = await temporaryFolder()
  const first = await openIn(folder.dir)
  first.add({ kind: 'agentStarted', message: 'One.' })
  await first.flush()
  const file = join(folder.dir, 'history.jsonl')
  await writeFile(file, `${await readFile(file, 'utf8')}{"id":2,"at":"2026`)
  const second = await openIn(folder.dir)
  expect(second.notice).toBe(`The last entry of ${file} was cut off when the agent ended, and is left out.`)
  second.add({ kind: 'agentStarted', message: 'Two.' })
  await second.flush()
  const third = await openIn(folder.dir)
  expect([third.notice, third.page({ limit: 9 }).entries.map(({ id }) => id)]).toEqual([undefined, [2, 1]])
})

test.each([
  { what: 'noise', content: 'no history\nat all\n', known: 0 },
  { what: 'a broken line among good ones', content: 'good\n{"id":2}\ngood\n', known: 1 },
  { what: 'far more than is ever written', content: 'x'.repeat(9 * 1_024 * 1_024), known: 0 },
])('$what is set aside, and what can be read is still known', async ({ content, known }) => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'history.jsonl')
  const good = JSON.stringify({ id: 1, at: '2026-01-01T00:00:00Z', kind: 'agentStarted', message: 'One.' })
  await writeFile(file, content.replaceAll('good', good))
  const history = await openIn(folder.dir)
  history.add({ kind: 'agentStarted', message: 'New.' })
  await history.flush()
  expect(history.notice).toBe(
    `${file} could not be parsed and was set aside as history.jsonl.broken-${now()}: ${known} earlier entries could be recovered.`,
  )
  expect((await readdir(folder.dir)).sort()).toEqual(['history.jsonl', `history.jsonl.broken-${now()}`])
  const again = await openIn(folder.dir)
  expect([again.notice, again.page({ limit: 9 }).entries.length]).toEqual([undefined, known + 1])
})

test.each([10, 3_000])(
  'entries of %i characters are bounded in number and bytes, in memory and on disk',
  async (length) => {
    await using folder = await temporaryFolder()
    const history = await openIn(folder.dir)
    for (let turn = 0; turn < 50; turn += 1) {
      for (let at = 0; at < 100; at += 1) history.add({ kind: 'crashed', service: tiny, message: 'x'.repeat(length) })
      await history.flush()
    }
    const file = join(folder.dir, 'history.jsonl')
    const { entries } = history.page({ limit: 10_000 })
    expect([entries[0]?.id, entries[0]?.message.length]).toEqual([5_000, Math.min(length, 2_000)])
    expect(entries.length).toBeLessThanOrEqual(2_000)
    expect((await stat(file)).size).toBeLessThanOrEqual(1_024 * 1_024)
    expect((await openIn(folder.dir)).page({ limit: 10_000 }).entries).toEqual(entries)
  },
)

test('a disk that takes nothing costs no entry of this run, and is caught up with later', async () => {
  await using folder = await temporaryFolder()
  const missing = join(folder.dir, 'missing', 'history.jsonl')
  const warnings: string[] = []
  const history = await History.open({ file: missing, log: { ...log, warn: (message) => warnings.push(message) }, now })
  history.add({ kind: 'agentStarted', message: 'One.' })
  await history.flush()
  history.add({ kind: 'ready', message: 'Two.' })
  await history.flush()
  expect([warnings, history.page({ limit: 9 }).entries.length]).toEqual([['history not written'], 2])
})

test('who shows it is told of each entry, and of its id, over restarts too', async () => {
  await using folder = await temporaryFolder()
  const told: number[] = []
  const open = async () => {
    const history: History = await History.open({
      file: join(folder.dir, 'history.jsonl'),
      log,
      now,
      onAdded: () => told.push(history.newestId),
    })
    return history
  }
  const first = await open()
  told.push(first.newestId)
  first.add({ kind: 'agentStarted', message: 'Started.' })
  first.add({ kind: 'agentStopped', message: 'Stopped.' })
  await first.flush()
  const second = await open()
  told.push(second.newestId)
  second.add({ kind: 'agentStarted', message: 'Started.' })
  expect(told).toEqual([0, 1, 2, 2, 3])
  await second.flush()
})
