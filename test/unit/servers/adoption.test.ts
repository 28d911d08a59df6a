import { readFile } from 'node:fs/promises'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { adoptServers, judge, unknownDigest, type Sight } from '../../../src/agent-core/servers/adoption.ts'
import { digestOf, Ledger, type LedgerEntry } from '../../../src/agent-core/servers/ledger.ts'
import { probeHealth } from '../../../src/agent-core/servers/probe.ts'
import { livenessTimings } from '../../../src/agent-core/servers/liveness.ts'
import { serverFolders } from '../../../src/agent-core/servers/run-folder.ts'
import { ProcessGroup } from '../../../src/agent-core/servers/process-group.ts'
import type { ProcessFacts } from '../../../src/agent-core/platform/platform.ts'
import { eventually } from '../../support/eventually.ts'
import type { SampleScript } from '../../support/sample-servers/sample.ts'
import { silentLog } from '../../support/silent-log.ts'
import { livingPids, platform, probedBy, ServerRoom } from './server-room.ts'

describe('which processes are taken over', () => {
  const commandLine = '/bin/server --model a.gguf --host 0.0.0.0 --port 5001 --metrics'
  const server: ProcessFacts = {
    pid: 70,
    groupId: 70,
    startTime: 't1',
    commandLine,
    residentBytes: 1,
    cpuMs: 0,
    suspended: false,
  }
  const workplace = {
    pid: 70,
    workingDirectory: '/state/runs/team.a.b/2026-01-02T03-04-05Z-1/work',
    output: '/state/runs/team.a.b/2026-01-02T03-04-05Z-1/output.log',
  }
  const noted = { pid: 70, startTime: 't1', commandLineDigest: digestOf(commandLine) }
  const intent: LedgerEntry = {
    key: 'team/a.b',
    uid: 'uid-1',
    digest: 'digest-1',
    executable: '/bin/server',
    workingDirectory: '/state/runs/team.a.b/2026-01-02T03-04-05Z-1/work',
    logFile: '/state/runs/team.a.b/2026-01-02T03-04-05Z-1/output.log',
    outputOffset: 12,
    port: 5001,
    sleepsWhenIdle: false,
    bootId: 'boot-1',
    loginSession: 'login-1',
    intendedAt: '2026-01-02T03:04:05.000Z',
  }
  const entry: LedgerEntry = { ...intent, process: noted, readySince: '2026-01-02T03:04:06.000Z' }
  const seen: Sight = {
    host: { bootId: 'boot-1', loginSession: 'login-1' },
    processes: [server],
    workplaces: [workplace],
    folders: serverFolders('/state'),
    digests: new Map([[70, 'digest-1']]),
  }
  const nowhere: Partial<Sight> = { workplaces: [] }
  const rebuilt = {
    key: 'team/a.b',
    uid: '',
    digest: 'digest-1',
    executable: '/bin/server',
    workingDirectory: workplace.workingDirectory,
    logFile: workplace.output,
    outputOffset: 0,
    port: 5001,
    sleepsWhenIdle: false,
    ...seen.host,
    intendedAt: expect.any(String) as string,
    process: noted,
  }
  const nothing = { adopt: [], reap: [] }

  test('of two servers of one service the one that has served, and the other is ended', () => {
    const second = {
      workingDirectory: '/state/runs/team.a.b/2026-01-02T04-00-00Z-2/work',
      output: '/state/runs/team.a.b/2026-01-02T04-00-00Z-2/output.log',
    }
    const { adopt, reap } = judge([entry], {
      ...seen,
      processes: [server, { ...server, pid: 80, groupId: 80, commandLine: commandLine.replace('5001', '5002') }],
      workplaces: [workplace, { pid: 80, ...second }],
    })
    expect(adopt.map((one) => one.process?.pid)).toEqual([70])
    expect(reap).toEqual([{ key: 'team/a.b', groupId: 80, leaderStartTime: 't1' }])
  })

  test.each<[string, readonly LedgerEntry[], Partial<Sight>, ReturnType<typeof judge>]>([
    [
      'one that is as it was noted, although its workplace cannot be seen',
      [entry],
      nowhere,
      { adopt: [{ ...entry, process: noted }], reap: [] },
    ],
    [
      'one that has replaced its command line, by its workplace',
      [{ ...entry, process: { ...noted, commandLineDigest: 'another' } }],
      {},
      { adopt: [{ ...entry, process: noted }], reap: [] },
    ],
    [
      'one whose spawn was not noted any more, by its workplace and port',
      [intent],
      {},
      { adopt: [{ ...intent, process: noted }], reap: [] },
    ],
    [
      'a daemon whose spawn was not noted, by its workplace, as its arguments name no port',
      [{ ...intent, runtime: 'ollama' }],
      { processes: [{ ...server, commandLine: 'ollama serve' }] },
      {
        adopt: [
          {
            ...{ ...intent, runtime: 'ollama' },
            process: { ...noted, commandLineDigest: digestOf('ollama serve') },
          },
        ],
        reap: [],
      },
    ],
    [
      'one of an earlier login, to be started again',
      [{ ...entry, loginSession: 'login-0' }],
      {},
      { adopt: [{ ...entry, loginSession: 'login-0', digest: unknownDigest, process: noted }], reap: [] },
    ],
    ['one that the ledger does not know, by its workplace', [], {}, { adopt: [rebuilt], reap: [] }],
    [
      'one that does not say what it serves, to be started again',
      [],
      { digests: new Map() },
      { adopt: [{ ...rebuilt, digest: unknownDigest }], reap: [] },
    ],
    [
      'none whose number belongs to a later process',
      [entry],
      { processes: [{ ...server, startTime: 't2' }], ...nowhere },
      nothing,
    ],
    [
      'none whose number belongs to another program',
      [entry],
      { processes: [{ ...server, commandLine: 'vi' }], ...nowhere },
      nothing,
    ],
    ['none of an earlier boot', [{ ...entry, bootId: 'boot-0' }], nowhere, nothing],
    [
      'one in the place of what was only intended in an earlier boot, as unknown to the ledger',
      [{ ...intent, bootId: 'boot-0' }],
      {},
      { adopt: [rebuilt], reap: [] },
    ],
    [
      'none where nobody knows which boot this is',
      [{ ...entry, bootId: '' }],
      { ...nowhere, host: { bootId: '', loginSession: undefined } },
      nothing,
    ],
    ['none that was only intended and is not there', [intent], { processes: [], workplaces: [] }, nothing],
    ['none that was only intended, by its port alone', [intent], nowhere, nothing],
    ['no shell in the folder', [], { workplaces: [{ ...workplace, output: '/dev/pts/1' }] }, nothing],
    ['nobody beside the folder', [], { workplaces: [{ ...workplace, workingDirectory: '/state/runs' }] }, nothing],
    [
      'what a dead server left is ended',
      [],
      { processes: [{ ...server, groupId: 60 }] },
      { adopt: [], reap: [{ key: 'team/a.b', groupId: 60, leaderStartTime: undefined }] },
    ],
    [
      'a second server of one service is ended',
      [entry],
      {
        processes: [server, { ...server, pid: 71, groupId: 71, startTime: 't3', commandLine: 'server --port 5002' }],
        workplaces: [workplace, { ...workplace, pid: 71 }],
      },
      { adopt: [{ ...entry, process: noted }], reap: [{ key: 'team/a.b', groupId: 71, leaderStartTime: 't3' }] },
    ],
    [
      'a process that a server moved to a group of its own is left to it',
      [entry],
      {
        processes: [server, { ...server, pid: 71, groupId: 71 }],
        workplaces: [workplace, { ...workplace, pid: 71 }],
      },
      { adopt: [{ ...entry, process: noted }], reap: [] },
    ],
  ])('%s', (_, entries, changes, expected) => {
    expect(judge(entries, { ...seen, ...changes })).toEqual(expected)
  })
})

describe('a server that an agent left behind', () => {
  test('is taken over as the same process, and stopped like any other', async () => {
    await using room = await ServerRoom.create()
    const pid = await serverLeftIn(room)
    expect(await adoptIn(room)).toEqual([])
    const { port, readySince } = await room.reached('ready')
    const states = room.changes.map(({ state }) => state)
    expect([states[0], readySince < Date.now(), room.servers.factsOf('a/b')?.digest]).toEqual([
      { kind: 'starting', since: expect.any(Number) as number, pid, port, unasked: true },
      true,
      'digest-1',
    ])
    const { commandLine } = (await platform.process(pid)) ?? {}
    // The system begins with the interpreter of a script.
    expect(commandLine?.endsWith(room.servers.commandOf('a/b')?.join(' ') ?? 'nothing')).toBe(true)
    expect(() => room.start()).toThrow('a/b still has a server')
    expect(await room.servers.stop('a/b')).toEqual({ stopped: true })
    expect([await livingPids(pid), room.servers.get('a/b')]).toMatchObject([[], { cause: 'stopped', settled: true }])
    await room.ledger.close()
    expect(await new Ledger({ file: join(room.folder, 'ledger.json'), platform, log: silentLog }).load()).toEqual({
      entries: [],
      notice: undefined,
    })
  })

  test('that was killed in the turn of the spawn, before it could be identified, is taken over and can be ended', async () => {
    await using room = await ServerRoom.create()
    const program = fileURLToPath(new URL('agent-that-ends.ts', import.meta.url))
    const agent = spawn(process.execPath, [program, room.folder, '{}', 'killed'], { stdio: 'ignore' })
    expect(await once(agent, 'exit')).toEqual([null, 'SIGKILL'])
    expect(await readFile(join(room.folder, 'ledger.json'), 'utf8')).not.toContain('commandLineDigest')
    expect(await adoptIn(room)).toEqual([])
    const { pid } = await room.reached('ready')
    expect(await livingPids(pid)).toEqual([pid])
    expect(await room.servers.stop('a/b')).toEqual({ stopped: true })
    expect(await livingPids(pid)).toEqual([])
  })

  test('and cannot be asked, as this agent may open no more files, counts as what it was until it can', async () => {
    const quick = { everyMs: 100, answerWithinMs: 500, followUpMs: 50, misses: 2, hungMisses: 4 }
    let seesFrom = Infinity
    await using room = await ServerRoom.create({
      liveness: { ...livenessTimings, ...quick },
      ...probedBy(async (...question) =>
        performance.now() < seesFrom ? { kind: 'cannotAsk', reason: 'no file descriptors' } : probeHealth(...question),
      ),
    })
    const pid = await serverLeftIn(room)
    // Longer than it is trusted where it is silent.
    seesFrom = performance.now() + 1_500
    await adoptIn(room)
    expect(await room.reached('ready')).toMatchObject({ pid, healthy: true })
    expect(room.kinds()).toEqual(['starting', 'ready'])
  })

  test('goes on untouched where the processes cannot be seen, and that is told', async () => {
    await using room = await ServerRoom.create()
    const pid = await serverLeftIn(room)
    try {
      const notices = await adoptIn(room, { processes: () => Promise.reject(new Error('ps hangs.')) })
      expect([notices, room.servers.state().size, await livingPids(pid)]).toEqual([
        ['Servers that an earlier agent left running were not adopted and keep running unmanaged: ps hangs.'],
        0,
        [pid],
      ])
    } finally {
      process.kill(-pid, 'SIGKILL')
    }
  })

  test('and died since without its children has these ended', async () => {
    await using room = await ServerRoom.create()
    const pid = await serverLeftIn(room, { grandchild: { ignoreSigterm: true } })
    process.kill(pid, 'SIGKILL')
    await eventually(async () => !(await livingPids(pid)).includes(pid))
    expect([(await livingPids(pid)).length, await adoptIn(room), await livingPids(pid)]).toEqual([1, [], []])
    expect(room.servers.state().size).toBe(0)
  })
})

test('no signal reaches a process that has the number of a server that ended', async () => {
  const stranger = spawn('/bin/sleep', ['60'], { detached: true, stdio: 'ignore' })
  await once(stranger, 'spawn')
  const groupId = stranger.pid ?? 0
  try {
    const troubles: unknown[] = []
    const log = { ...silentLog, warn: (...trouble: unknown[]) => void troubles.push(trouble) }
    const group = new ProcessGroup({ groupId, platform, leaderStartTime: 'earlier', log })
    group.signalNow('SIGKILL')
    await group.signal('SIGKILL')
    expect([await group.members(), await livingPids(groupId), troubles]).toEqual([[], [groupId], []])
  } finally {
    stranger.kill('SIGKILL')
    await once(stranger, 'exit')
  }
})

/** Answers the pid of a server that was ready when its agent was killed. */
async function serverLeftIn(room: ServerRoom, script: SampleScript = {}): Promise<number> {
  const program = fileURLToPath(new URL('agent-that-ends.ts', import.meta.url))
  const agent = spawn(process.execPath, [program, room.folder, JSON.stringify(script)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(agent, 'exit')
  const [line] = (await once(agent.stdout, 'data')) as [Buffer]
  const noted = () => readFile(join(room.folder, 'ledger.json'), 'utf8')
  await eventually(async () => (await noted()).includes('readySince'), { what: 'the ledger saying that it was ready' })
  agent.kill('SIGKILL')
  await ended
  return z.object({ pid: z.number() }).parse(JSON.parse(line.toString())).pid
}

/** The next agent on what another left in the folder of the room. */
const adoptIn = (room: ServerRoom, changes: Partial<Parameters<typeof adoptServers>[0]['platform']> = {}) =>
  adoptServers({
    ledger: room.ledger,
    servers: room.servers,
    platform: {
      processes: () => platform.processes(),
      workplaces: () => platform.workplaces(),
      variableOf: (pid, name) => platform.variableOf(pid, name),
      process: (pid) => platform.process(pid),
      processGroup: (groupId) => platform.processGroup(groupId),
      ...changes,
    },
    log: silentLog,
    stateDir: room.folder,
    rules: () => ({}),
  })
