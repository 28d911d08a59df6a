import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, open, readFile, writeFile, readdir, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { ServiceOutput } from '../../../src/agent-core/servers/output.ts'
import { serverFolders, type RunFolder } from '../../../src/agent-core/servers/run-folder.ts'
import { eventually } from '../../support/eventually.ts'
import { exists } from '../../support/exists.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { OutputRoom, sizesIn } from './output-room.ts'
import { ServerRoom } from './server-room.ts'

const run = promisify(execFile)

test('a file that is too long is moved to a piece named by its place in the run, in place of the one before; the previous run is kept with its own', async () => {
  await using room = await OutputRoom.create(10)
  const sizes = []
  for (const text of ['short', ' end', 'second piece', 'third']) {
    await room.write(text)
    await room.look()
    sizes.push(await room.sizes())
  }
  expect(await room.log.extent()).toMatchObject({ from: 11, to: 26 })
  await room.begin()
  await room.write('another run')
  await room.look()
  sizes.push(await room.sizes())
  expect(sizes).toEqual([
    { '': 5 },
    { '': 0, '.000000000000000': 9 },
    { '': 0, '.000000000000011': 10 },
    { '': 5, '.000000000000011': 10 },
    { '': 0, '.000000000000001': 10, '.previous': 5, '.previous.000000000000011': 10 },
  ])
})

test('what grew without bounds while no agent was there is cut before it becomes the previous run', async () => {
  await using room = await OutputRoom.create(1_000)
  await room.write('x'.repeat(50_000))
  await room.begin()
  expect(await room.sizes()).toEqual({ '.previous': 0, '.previous.000000000049000': 1_000 })
})

test('a noisy server is bounded while it runs, and after its end the disk holds no more than the limits say', async () => {
  const outputBytes = 100_000
  await using servers = await ServerRoom.create({ outputBytes })
  servers.start({ noise: { lines: 50, lineBytes: 1_000, everyMs: 10 } })
  await servers.reached('ready')
  const sizes = () => sizesIn(dirname(servers.files().logFile))
  await eventually(async () => Object.keys(await sizes()).length === 2)
  await servers.servers.stop('a/b')
  const [current = 0, ...pieces] = Object.values(await sizes())
  expect({ current: current <= outputBytes, pieces: pieces.length }).toEqual({ current: true, pieces: 1 })
})

/** Writes 40,000 numbered lines, each with one call, without a pause that would be longer than a cut. */
const numbers = `
  const fs = require('node:fs')
  let n = 0
  const burst = () => {
    for (let i = 0; i < 20; i++) fs.writeSync(1, 'line ' + n++ + '\\n')
    if (n < 40000) setTimeout(burst, 1)
  }
  burst()`

test('cuts under a writer double nothing, mix nothing up and lose next to nothing', async () => {
  await using room = await OutputRoom.create(20_000)
  await using file = await open(room.file, 'a')
  const writer = spawn(process.execPath, ['-e', numbers], { stdio: ['ignore', file.fd, 'inherit'] })
  const ended = once(writer, 'exit')
  const kept = new Map<string, string>()
  const keep = async () => {
    const name = Object.keys(await room.sizes()).find((one) => one !== '' && !kept.has(one))
    if (name !== undefined) kept.set(name, await readFile(room.file + name, 'utf8'))
  }
  while (writer.exitCode === null) {
    await room.look()
    await keep()
    await nextTurn()
  }
  await ended
  const pieces = [...kept.values(), await readFile(room.file, 'utf8')]
  const text = pieces.join('')
  const found = Array.from(text.matchAll(/line (\d+)\n/g), ([, digits]) => Number(digits))
  const inOrder = found.every((number, index) => index === 0 || number > (found[index - 1] ?? Infinity))
  expect({ cuts: pieces.length > 5, inOrder, mostAreThere: found.length > 0.9 * 40_000 }).toEqual({
    cuts: true,
    inOrder: true,
    mostAreThere: true,
  })
}, 180_000)

test('a full disk stops neither the server nor the agent: the file is cut, and that is told', async ({ skip }) => {
  const warnings: unknown[] = []
  const ignore = () => undefined
  const log = { debug: ignore, info: ignore, error: ignore, warn: (...one: unknown[]) => void warnings.push(one) }
  await using servers = await ServerRoom.create({ outputBytes: 40_000, log })
  const runs = join(servers.folder, 'runs')
  await mkdir(runs)
  const isMounted = await run('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', runs]).then(
    () => true,
    () => false,
  )
  if (!isMounted) skip('needs the right to mount a tmpfs')
  await using _mount = {
    [Symbol.asyncDispose]: async () => {
      await run('umount', ['-l', runs])
    },
  }
  servers.start({ noise: { lines: 100, lineBytes: 1_000, everyMs: 20 } })
  const { pid, port } = await servers.reached('ready')
  const output = servers.servers.outputOf('a/b')
  await eventually(async () => ((await output.extent())?.to ?? 0) > 2 * 64 * 1_024)
  const answer = await fetch(`http://127.0.0.1:${port}/health`)
  expect({ status: answer.status, state: servers.servers.get('a/b') }).toMatchObject({
    status: 200,
    state: { kind: 'ready', pid, healthy: true },
  })
  expect(warnings[0]).toEqual([
    'older output of a server is lost: it could not be copied',
    { file: servers.files().logFile, error: expect.objectContaining({ code: 'ENOSPC' }) as Error },
  ])
})

const noon = Date.parse('2026-01-02T12:00:00Z')

async function opened(now = () => noon) {
  const folder = await temporaryFolder()
  /** As the next agent has it, which knows only what is on the disk. */
  const agent = () =>
    new ServiceOutput({
      key: 'a/b',
      folders: serverFolders(folder.dir),
      limitBytes: 1_000,
      log: silentLog,
      now,
      newest: () => undefined,
    })
  const names = () => readdir(join(folder.dir, 'runs/a.b'))
  return { agent, names, [Symbol.asyncDispose]: async () => folder[Symbol.asyncDispose]() }
}

const write = async ({ logFile, workingDirectory }: RunFolder, text: string) => {
  await mkdir(workingDirectory)
  await writeFile(join(workingDirectory, 'left by the server'), text)
  await writeFile(logFile, text)
}

test('the run before is kept, the ones before it are gone with their working directories; their number is their order', async () => {
  let hour = 12
  await using scene = await opened(() => noon + hour-- * 3_600_000)
  for (const text of ['first', 'second', 'third']) await write(await scene.agent().begin(), text)
  expect(await scene.names()).toEqual(['2026-01-02T22-00-00Z-3', '2026-01-02T23-00-00Z-2'])
  const reader = scene.agent()
  const extents = await Promise.all([reader.extent(), reader.extent('previous')])
  expect(extents.map((extent) => extent?.to)).toEqual(['third'.length, 'second'.length])
})

test('a start that wrote nothing does not cost the last words of the run before', async () => {
  await using scene = await opened()
  await write(await scene.agent().begin(), 'why it crashed')
  for (let attempt = 0; attempt < 3; attempt++) await scene.agent().begin()
  expect(await scene.names()).toEqual(['2026-01-02T12-00-00Z-1', '2026-01-02T12-00-00Z-4'])
  expect((await scene.agent().extent())?.to).toBe('why it crashed'.length)
})

test('what servers of unknown services wrote goes after a week, and what those of known ones wrote stays', async () => {
  await using room = await ServerRoom.create()
  room.start()
  const { logFile } = await room.reached('ready').then(() => room.files())
  const long = new Date(Date.now() - 8 * 86_400_000)
  const runs = join(room.folder, 'runs')
  for (const name of ['a.long', 'a.lately']) {
    const folder = join(runs, name, '2026-01-02T12-00-00Z-1')
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'output.log'), 'its last words')
    if (name === 'a.long') await utimes(join(folder, 'output.log'), long, long)
  }
  await utimes(logFile, long, long)
  await room.servers.sweepRuns()
  expect((await readdir(runs)).toSorted()).toEqual(['a.b', 'a.lately'])
})

test('a server that is started while that is looked through keeps what it writes', async () => {
  await using room = await ServerRoom.create()
  const folder = join(room.folder, 'runs/a.b/2026-01-02T12-00-00Z-1')
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'output.log'), 'its last words')
  using look = vi.spyOn(ServiceOutput.prototype, 'silentForMs').mockImplementationOnce(() => {
    room.start()
    return Promise.resolve(Infinity)
  })
  await room.servers.sweepRuns()
  expect(look).toHaveBeenCalledOnce()
  await room.reached('ready')
  expect(await exists(room.files().logFile)).toBe(true)
})
