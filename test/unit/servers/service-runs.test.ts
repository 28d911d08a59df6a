import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { serverFolders, type RunFolder } from '../../../src/agent-core/servers/run-folder.ts'
import { ServiceRuns } from '../../../src/agent-core/servers/service-runs.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { eventually } from '../../support/eventually.ts'
import { exists } from '../../support/exists.ts'
import { ServerRoom } from './server-room.ts'
import { OutputRoom } from './output-room.ts'

const noon = Date.parse('2026-01-02T12:00:00Z')

async function opened(now = () => noon) {
  const folder = await temporaryFolder()
  const limits = { bytes: 1_000, count: 3 }
  /** As the next agent has it, which knows only what is on the disk. */
  const agent = () =>
    new ServiceRuns({
      key: 'a/b',
      folders: serverFolders(folder.dir),
      limits,
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
  using look = vi.spyOn(ServiceRuns.prototype, 'silentForMs').mockImplementationOnce(() => {
    room.start()
    return Promise.resolve(Infinity)
  })
  await room.servers.sweepRuns()
  expect(look).toHaveBeenCalledOnce()
  await room.reached('ready')
  expect(await exists(room.files().logFile)).toBe(true)
})

test('a service that is made again at once has the output of its new server', async () => {
  await using room = await ServerRoom.create()
  room.start()
  await room.reached('ready')
  await room.servers.stop('a/b')
  const before = room.files().logFile
  room.servers.forget('a/b')
  const from = room.changes.length
  room.start()
  await room.reached('ready', { from })
  const { logFile } = room.files()
  await eventually(async () => (await room.servers.outputOf('a/b').extent())?.file === logFile)
  expect([await exists(before), await exists(logFile)]).toEqual([logFile === before, true])
})

test('a run that wrote while the clock was ahead is not taken for the one that wrote last', async () => {
  await using scene = await opened()
  const ahead = await scene.agent().begin()
  await write(ahead, 'last year, as it turned out')
  const year = Date.now() / 1_000 + 365 * 86_400
  await utimes(ahead.logFile, year, year)
  await write(await scene.agent().begin(), 'why it crashed')
  await scene.agent().begin()
  expect((await scene.agent().extent())?.to).toBe('why it crashed'.length)
})

test('the run of the server that another is started beside is kept, whichever wrote last', async () => {
  await using scene = await opened()
  const runs = scene.agent()
  const serving = await runs.begin()
  await write(serving, 'serves')
  await write(await runs.begin(serving), 'cannot start')
  await runs.begin(serving)
  expect(await scene.names()).toEqual([1, 3].map((number) => `2026-01-02T12-00-00Z-${number}`))
  expect(dirname(serving.logFile)).toMatch(/Z-1$/)
})

test('older output of all runs counts together, and a run that loses all of it keeps its places', async () => {
  await using room = await OutputRoom.create({ bytes: 10, count: 1 })
  await room.write('0123456789')
  await room.look()
  await room.write('end')
  const before = await room.log.extent()
  await room.begin()
  await room.write('another run')
  await room.look()
  expect(await room.sizes()).toEqual({ '': 0, '.000000000000001': 10, '.previous': 3, '.previous.000000000000010': 0 })
  expect(before).toMatchObject({ from: 0, to: 13 })
  expect(await room.log.extent('previous')).toMatchObject({ fileId: before?.fileId, from: 10, to: 13 })
})
