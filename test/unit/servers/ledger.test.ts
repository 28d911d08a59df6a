import { readFileSync } from 'node:fs'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Ledger, type LedgerEntry } from '../../../src/agent-core/servers/ledger.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { platform, ServerRoom } from './server-room.ts'

const text: unknown = expect.any(String)

const entry: LedgerEntry = {
  key: 'a/b',
  uid: 'uid-1',
  digest: 'digest-1',
  executable: '/bin/server',
  workingDirectory: '/state/runs/a.b/1/work',
  logFile: '/state/runs/a.b/1/output.log',
  outputOffset: 0,
  port: 5001,
  sleepsWhenIdle: false,
  bootId: 'boot-1',
  intendedAt: '2026-01-02T03:04:05.000Z',
}

const open = (folder: string) =>
  new Ledger({ file: join(folder, 'ledger.json'), platform, log: silentLog, now: () => 1_234 })

test('a server is noted before it is spawned, identified after it, and forgotten when nothing of it is left', async () => {
  await using room = await ServerRoom.create()
  const file = join(room.folder, 'ledger.json')
  const seen: unknown[] = []
  const see = () => seen.push(JSON.parse(readFileSync(file, 'utf8')))
  const { argv } = room.launch()
  let isNoted = false
  room.start(
    {},
    {
      needBytes: 5_000,
      mappedBytes: 4_000,
      // Asked for its address, without a port; then for the note, and for the spawn.
      argv: (port) => {
        if (isNoted) see()
        isNoted = port !== 0
        return argv(port)
      },
    },
  )
  const { pid, port } = await room.reached('ready')
  const files = room.files()
  await eventually(() => readFileSync(file, 'utf8').includes('readySince'))
  see()
  await room.servers.stop('a/b')
  await room.ledger.close()
  see()
  const intent = {
    key: 'a/b',
    uid: 'uid-1',
    digest: 'digest-1',
    executable: text,
    argv: [...argv(port)],
    ...files,
    outputOffset: 0,
    port,
    sleepsWhenIdle: false,
    needBytes: 5_000,
    mappedBytes: 4_000,
    bootId: await platform.bootId(),
    intendedAt: text,
  }
  const process = { pid, startTime: text, commandLineDigest: expect.stringMatching(/^[\da-f]{64}$/) as unknown }
  expect(seen).toEqual([
    { schema: 1, servers: [intent] },
    { schema: 1, servers: [{ ...intent, process, readySince: text }] },
    { schema: 1, servers: [] },
  ])
})

test.each([
  ['that is corrupt', '\u0000\u0001garbage'],
  ['that is half written', '{"schema":1,"servers":[{"key":"a/b","ui'],
  ['that is empty', ''],
  ['of another version', JSON.stringify({ schema: 2, servers: [] })],
  ['with an entry that makes no sense', JSON.stringify({ schema: 1, servers: [{ ...entry, port: 'x' }] })],
])('a ledger %s is set aside as it is and told, and the next write makes a new one', async (_, content) => {
  await using folder = await temporaryFolder()
  const file = join(folder.dir, 'ledger.json')
  await writeFile(file, content)
  const ledger = open(folder.dir)
  const loaded = await ledger.load()
  ledger.keep(entry)
  await ledger.close()
  expect({
    loaded,
    aside: await readFile(`${file}.broken-1234`, 'utf8'),
    next: await open(folder.dir).load(),
    mode: (await stat(file)).mode & 0o777,
  }).toEqual({
    loaded: {
      entries: [],
      notice: `The ledger of running servers ${file} could not be read and was set aside as ${file}.broken-1234: the agent searched the running processes instead.`,
    },
    aside: content,
    next: { entries: [entry], notice: undefined },
    mode: 0o600,
  })
})

test('a note that could not be written is in no later one', async () => {
  await using room = await ServerRoom.create()
  const file = join(room.folder, 'ledger.json')
  await mkdir(file)
  const run = { name: 'a.b/1', workingDirectory: join(room.folder, 'run'), logFile: join(room.folder, 'run.log') }
  const where = { key: 'a/b', port: 5001, outputOffset: 0 } as const
  const note = room.ledger.intend(run, room.launch(), where)
  await expect(note).rejects.toThrow('could not be recorded')
  await rm(file, { recursive: true })
  room.ledger.keep({ ...entry, key: 'a/other', workingDirectory: '/state/runs/a.other/1/work' })
  await room.ledger.close()
  const { entries } = await open(room.folder).load()
  expect(entries.map(({ key }) => key)).toEqual(['a/other'])
})

test('a server that cannot be noted is not started, and is tried again like any start that failed', async () => {
  await using room = await ServerRoom.create({ now: () => 10_000 })
  const file = join(room.folder, 'ledger.json')
  await mkdir(file)
  const asked: number[] = []
  const { argv } = room.launch()
  const counted = (port: number) => {
    // Without a port only its address is asked for.
    if (port !== 0) asked.push(port)
    return argv(port)
  }
  room.start({}, { argv: counted })
  const failed = await room.reached('failedToSpawn')
  // Once for the note, and not again for a spawn.
  expect([failed, asked.length]).toEqual([
    {
      kind: 'failedToSpawn',
      since: 10_000,
      failures: 1,
      retryAt: 10_500,
      message: expect.stringMatching(
        /^The server was not started, because it could not be recorded in \S+ \(EISDIR.*Make room on that disk, or choose another --state-dir\.$/,
      ) as unknown,
    },
    1,
  ])
  await rm(file, { recursive: true })
  room.start({}, { argv: counted })
  await room.reached('ready')
})
