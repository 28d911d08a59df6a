import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { judge, type Sight } from '../../../src/agent-core/servers/adoption.ts'
import type { LedgerEntry } from '../../../src/agent-core/servers/ledger.ts'
import { runNumber, runOf, serverFolders } from '../../../src/agent-core/servers/run-folder.ts'
import { tail } from '../../../src/agent-core/servers/output-reader.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, livingPids, ServerRoom } from './server-room.ts'

const noise = (word: string) => ({ noise: { lines: 1, lineBytes: word.length }, crash: { message: word } })

async function rolesIn(room: ServerRoom): Promise<unknown[]> {
  const { servers } = JSON.parse(await readFile(join(room.folder, 'ledger.json'), 'utf8')) as { servers: LedgerEntry[] }
  return servers.map(({ key, workingDirectory, role, digest }) => [
    key,
    runNumber(runOf(workingDirectory)),
    role,
    digest,
  ])
}

test('a server is started beside another, takes its place, and the other ends when nobody asks it any more', async () => {
  await using room = await ServerRoom.create()
  const { servers } = room
  room.start(noise('old'))
  const old = await room.reached('ready')
  expect(() => servers.promote('a/b')).toThrow('a/b has no successor.')
  servers.startBeside('a/b', room.launch({ loadMs: 100 }, { digest: 'digest-2' }))
  expect(() => servers.startBeside('a/b', room.launch())).toThrow('a/b has two servers already.')
  const next = await room.reached('ready', { where: ({ pid }) => pid !== old.pid })
  await eventually(async () => (await rolesIn(room)).length === 2)
  expect([servers.get('a/b'), servers.successor('a/b'), servers.running]).toMatchObject([
    { pid: old.pid },
    { pid: next.pid },
    2,
  ])
  expect(await rolesIn(room)).toEqual([
    ['a/b', 1, undefined, 'digest-1'],
    ['a/b', 2, 'successor', 'digest-2'],
  ])

  servers.promote('a/b')
  expect([servers.get('a/b'), servers.successor('a/b'), servers.digestOf('a/b')]).toMatchObject([
    { pid: next.pid },
    undefined,
    'digest-2',
  ])
  await eventually(async () => JSON.stringify(await rolesIn(room)).includes('retiring'))
  // Clients that still use the old port are answered.
  expect(await ask(old.port)).toBe('answered')
  expect(() => servers.start('a/b', room.launch())).toThrow('still has a server')
  await eventually(() => servers.retiring('a/b') === undefined)
  expect([await livingPids(old.pid), servers.get('a/b')]).toMatchObject([[], { kind: 'ready', pid: next.pid }])
  await eventually(async () => (await rolesIn(room)).length === 1)
  expect(await rolesIn(room)).toEqual([['a/b', 2, undefined, 'digest-2']])
})

test('of two servers readers follow the newer one, and keep their places in both', async () => {
  await using room = await ServerRoom.create()
  const { servers } = room
  const output = servers.outputOf('a/b')
  room.start()
  const old = await room.reached('ready')
  const before = await tail(output, { lines: 100 })
  servers.startBeside('a/b', room.launch({ crashAtStart: { message: 'the new one says this' } }))
  await eventually(() => servers.successor('a/b')?.kind === 'exited')
  const after = await tail(output, { lines: 100 })
  expect(after.lines.join('\n')).toContain('the new one says this')
  expect((await tail(output, { lines: 100, run: 'previous' })).start).toEqual(before.start)
  expect((await tail(output, { lines: 100, before: before.end })).lines).toEqual(before.lines)
  expect(await output.read({ ...before.start }, 10)).toMatchObject({ over: true })

  await servers.dropSuccessor('a/b')
  expect((await tail(output, { lines: 100 })).start).toEqual(before.start)
  await servers.stop('a/b')
  room.start()
  await room.reached('ready', { where: ({ pid }) => pid !== old.pid })
  expect((await output.extent('current'))?.fileId).not.toBe(before.start.fileId)
  const previous = await tail(output, { lines: 100, run: 'previous' })
  expect(previous.lines.join('\n')).toMatch(/the new one says this|listening/)
})

const process = { pid: 70, startTime: 't1', commandLineDigest: '' }
const entry: LedgerEntry & { process: typeof process } = {
  key: 'team/a',
  uid: 'uid-1',
  digest: 'digest-1',
  executable: '/bin/server',
  workingDirectory: '/state/runs/team.a/2026-01-02T03-04-05Z-1/work',
  logFile: '/state/runs/team.a/2026-01-02T03-04-05Z-1/output.log',
  outputOffset: 0,
  port: 5001,
  sleepsWhenIdle: false,
  bootId: 'boot-1',
  loginSession: 'login-1',
  intendedAt: '2026-01-02T03:04:05.000Z',
  process,
}
const second: typeof entry = {
  ...entry,
  digest: 'digest-2',
  workingDirectory: '/state/runs/team.a/2026-01-02T03-04-05Z-2/work',
  logFile: '/state/runs/team.a/2026-01-02T03-04-05Z-2/output.log',
  port: 5002,
  process: { ...process, pid: 71 },
}
const factsOf = ({ port, process: { pid } }: typeof entry) => ({
  pid,
  groupId: pid,
  startTime: 't1',
  commandLine: `/bin/server --port ${port} `,
  residentBytes: 1,
  cpuMs: 0,
  suspended: false,
})
const sightOf = (...found: (typeof entry)[]): Sight => ({
  host: { bootId: 'boot-1', loginSession: 'login-1' },
  processes: found.map(factsOf),
  workplaces: found.map(({ process: { pid }, workingDirectory, logFile }) => ({
    pid,
    workingDirectory,
    output: logFile,
  })),
  folders: serverFolders('/state'),
  digests: new Map(),
})

test.each<[what: string, noted: LedgerEntry[], found: (typeof entry)[], roles: unknown[]]>([
  [
    'as the ledger says',
    [entry, { ...second, role: 'successor' }],
    [entry, second],
    [
      [70, undefined],
      [71, 'successor'],
    ],
  ],
  [
    'after the change',
    [{ ...entry, role: 'retiring' }, second],
    [entry, second],
    [
      [71, undefined],
      [70, 'retiring'],
    ],
  ],
  [
    'a successor that is alone answers for the service',
    [entry, { ...second, role: 'successor' }],
    [second],
    [[71, undefined]],
  ],
  ['one that was to end and is alone does', [{ ...entry, role: 'retiring' }], [entry], [[70, undefined]]],
  [
    'of two that nobody noted one is the successor',
    [],
    [entry, second],
    [
      [70, undefined],
      [71, 'successor'],
    ],
  ],
])('two servers of one service are taken over for what they are to it: %s', (_what, noted, found, roles) => {
  const { adopt, reap } = judge(noted, sightOf(...found))
  expect([adopt.map(({ process: server, role }) => [server?.pid, role]), reap]).toEqual([roles, []])
})
