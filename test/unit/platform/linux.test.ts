import { once } from 'node:events'
import { spawn, type ChildProcess } from 'node:child_process'
import { open, realpath } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import path from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { LinuxPlatform } from '../../../src/agent-core/platform/linux.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const platform = new LinuxPlatform()
const children: ChildProcess[] = []

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
})

async function start(command: string, args: string[]): Promise<{ child: ChildProcess; pid: number }> {
  const child = spawn(command, args, { detached: true, stdio: 'ignore' })
  children.push(child)
  await once(child, 'spawn')
  if (child.pid === undefined) throw new Error('no pid')
  return { child, pid: child.pid }
}

async function listen(): Promise<{ port: number; [Symbol.asyncDispose](): Promise<void> }> {
  const server = createServer().listen(0, '0.0.0.0')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('not a TCP port')
  return {
    port: address.port,
    [Symbol.asyncDispose]: async () => {
      server.close()
      await once(server, 'close')
    },
  }
}

const takenBytes = 200 * 1024 ** 2
const takeMemory = `globalThis.taken = Buffer.alloc(${takenBytes}, 1); setInterval(() => {}, 1e6)`

describe.runIf(process.platform === 'linux')('the process table of Linux', () => {
  test('a process is known by group, start time, command line and memory, and is gone once reaped', async () => {
    const { child, pid } = await start('/bin/sleep', ['60'])
    const facts = await eventually(async () => {
      const found = await platform.process(pid)
      return found?.commandLine === '/bin/sleep 60' ? found : undefined
    })
    expect(facts).toEqual({
      pid,
      groupId: pid,
      startTime: expect.stringMatching(/^\d+$/) as string,
      commandLine: '/bin/sleep 60',
      residentBytes: expect.any(Number) as number,
      cpuMs: expect.any(Number) as number,
      suspended: false,
    })
    expect(facts.residentBytes).toBeGreaterThan(0)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect([await platform.process(pid), await platform.processGroup(pid)]).toEqual([undefined, []])
  })

  test('a zombie counts as gone', async () => {
    const { pid } = await start('/bin/sh', ['-c', 'sleep 0 & exec sleep 60'])
    const group = await eventually(async () => {
      const members = await platform.processGroup(pid)
      return members.length === 1 && members[0]?.commandLine === 'sleep 60' ? members : undefined
    })
    expect(group).toMatchObject([{ pid }])
  })

  test('a port is ours when our group listens on it, and names its holder when another does', async () => {
    await using server = await listen()
    const ownGroup = (await platform.process(process.pid))?.groupId ?? 0
    const { pid: stranger } = await start('/bin/sleep', ['60'])
    expect(await platform.portListeners(server.port, ownGroup)).toEqual({ ours: [process.pid], others: [] })
    expect(await platform.portListeners(server.port, stranger)).toEqual({
      ours: [],
      others: [{ pid: process.pid, command: expect.any(String) as string }],
    })
  })

  test('connections to a port are counted once, at the end that has it, for as long as they are open', async () => {
    await using server = await listen()
    const clients = [connect(server.port, '127.0.0.1'), connect(server.port, '127.0.0.1')]
    await eventually(async () => (await platform.establishedConnections(server.port)) === 2)
    for (const client of clients) client.destroy()
    await eventually(async () => (await platform.establishedConnections(server.port)) === 0)
  })

  test('a process that computes uses processor time, and one that is suspended says so', async () => {
    const { child, pid } = await start('/bin/sh', ['-c', 'while :; do :; done'])
    await eventually(async () => ((await platform.process(pid))?.cpuMs ?? 0) >= 50)
    child.kill('SIGSTOP')
    await eventually(async () => (await platform.process(pid))?.suspended)
  })

  test('what works where, writes its output where and was told what is seen of our own processes', async () => {
    await using folder = await temporaryFolder()
    await using output = await open(path.join(folder.dir, 'out.log'), 'a')
    const child = spawn('/bin/sleep', ['60'], {
      cwd: folder.dir,
      env: { DIGEST: 'a=b c' },
      detached: true,
      stdio: ['ignore', output.fd, 'ignore'],
    })
    children.push(child)
    await once(child, 'spawn')
    const pid = child.pid ?? 0
    const { startTime = '' } = (await platform.process(pid)) ?? {}
    const dir = await realpath(folder.dir)
    expect({
      place: (await platform.workplaces()).find((place) => place.pid === pid),
      listed: (await platform.processes()).filter((one) => one.pid === pid || one.pid === process.pid).length,
      variables: [await platform.variableOf(pid, 'DIGEST'), await platform.variableOf(pid, 'DIG')],
      running: [await platform.isRunning({ pid, startTime }), await platform.isRunning({ pid, startTime: '1' })],
    }).toEqual({
      place: { pid, workingDirectory: dir, output: path.join(dir, 'out.log') },
      listed: 2,
      variables: ['a=b c', undefined],
      running: [true, false],
    })
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(await platform.isRunning({ pid, startTime })).toBe(false)
  })

  test('a boot has an id, and nobody logs in at a screen', async () => {
    expect([await platform.bootId(), await platform.loginSession()]).toEqual([
      expect.stringMatching(/^[\da-f-]{36}$/),
      undefined,
    ])
  })

  test('what a process takes shows in its footprint, and in what is available to all', async () => {
    const before = await platform.memory()
    const { pid } = await start(process.execPath, ['-e', takeMemory])
    const bytes = await eventually(async () => {
      const size = (await platform.footprints([pid])).get(pid) ?? 0
      return size > takenBytes && size
    })
    expect(bytes).toBeLessThan(takenBytes + 150 * 1024 ** 2)
    expect(before.availableBytes).toBeGreaterThan(0)
    const biggest = await platform.biggestProcesses(50)
    expect(biggest.map((one) => one.bytes)).toEqual(biggest.map((one) => one.bytes).toSorted((a, b) => b - a))
    expect(biggest.find((one) => one.pid === pid)?.bytes ?? takenBytes).toBeGreaterThanOrEqual(takenBytes)
  })

  test('memory that two processes share is counted once', async () => {
    const pids = (
      await Promise.all([1, 2].map(() => start(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'])))
    ).map(({ pid }) => pid)
    const [shared, resident] = await eventually(async () => {
      const facts = await Promise.all(pids.map((pid) => platform.process(pid)))
      const sum = facts.reduce((bytes, fact) => bytes + (fact?.residentBytes ?? 0), 0)
      const footprints = [...(await platform.footprints(pids)).values()].reduce((bytes, size) => bytes + size, 0)
      return sum > 2 * 30 * 1024 ** 2 && [footprints, sum]
    })
    expect(shared).toBeLessThan(resident)
  })
})
