import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { launchEnvironment } from '../../../src/agent-core/servers/launch.ts'
import { ServerRoom } from './server-room.ts'

test('output goes to the file itself, only for this user, and the previous run is kept', async () => {
  await using room = await ServerRoom.create()
  room.start({ crashAtStart: { message: 'error: the first run' } })
  await room.settled()
  const previous = room.files()
  room.start({})
  await room.reached('ready')
  const { logFile, workingDirectory } = room.files()
  expect(await readFile(previous.logFile, 'utf8')).toContain('error: the first run')
  expect(await readFile(logFile, 'utf8')).toMatch(/^sample server: .*\n.*server is listening/)
  const modes = await Promise.all([logFile, workingDirectory].map(async (path) => (await stat(path)).mode & 0o777))
  expect(modes).toEqual([0o600, 0o700])
})

test('the folders of its files are links in its working directory, which go with the run and leave the folders alone', async () => {
  await using room = await ServerRoom.create()
  const store = join(room.folder, 'store')
  const file = join(store, 'tiny.gguf')
  await mkdir(store)
  await writeFile(file, 'GGUF')
  const { argv } = room.launch()
  const links = new Map([['model', store]])
  const works: string[] = []
  for (let run = 0; run < 3; run++) {
    const from = room.changes.length
    room.start({}, { localCommand: (port) => Promise.resolve({ argv: argv(port), links }) })
    await room.reached('ready', { from })
    works.push(room.files().workingDirectory)
    expect(await readFile(join(works[run] ?? '', 'model/tiny.gguf'), 'utf8')).toBe('GGUF')
    await room.servers.stop('a/b')
  }
  await expect(stat(works[0] ?? '')).rejects.toThrow('ENOENT')
  expect(await readFile(file, 'utf8')).toBe('GGUF')
})

test('the child sees the allowed part of our environment and what the service adds, and no token', () => {
  const own = { PATH: '/bin', HOME: '/h', HF_TOKEN: 'secret', KUBECONFIG: '/k', AWS_SECRET_ACCESS_KEY: 'x', LANG: 'C' }
  expect(launchEnvironment({ LLAMA_ARG_X: '1', LANG: 'de' }, own)).toEqual({
    PATH: '/bin',
    HOME: '/h',
    LANG: 'de',
    LLAMA_ARG_X: '1',
  })
})

describe('a start that fails', () => {
  test('an exit at start is told at once, with its first error line, not after a time limit', async () => {
    await using room = await ServerRoom.create()
    room.start({
      crashAtStart: {
        message: 'print_info: fine\nload_model: failed to load model\nmain: exiting due to model loading error',
        exitCode: 3,
      },
    })
    const exited = await room.settled()
    expect(room.kinds()).toEqual(['starting', 'starting', 'exited', 'settled'])
    expect(exited).toEqual({
      kind: 'exited',
      since: expect.any(Number) as number,
      settled: true,
      cause: 'itself',
      outOf: 'start',
      code: 3,
      signal: null,
      firstError: 'load_model: failed to load model',
      tail: [
        'sample server: this is not llama-server, every answer is made up',
        'print_info: fine',
        'load_model: failed to load model',
        'main: exiting due to model loading error',
      ],
      message: 'sample-server.cjs exited with code 3 while starting: load_model: failed to load model.',
      failures: 1,
      retryAt: expect.any(Number) as number,
    })
  })

  test.each([
    ['that is not there', false, 'it, or the interpreter it names, does not exist.'],
    ['that is not executable', true, 'it is not executable by this user.'],
  ])('a program %s', async (_what, isThere, told) => {
    await using room = await ServerRoom.create()
    const executable = join(room.folder, 'plain')
    if (isThere) await writeFile(executable, 'x', { mode: 0o644 })
    room.start({}, { executable })
    const message = `${executable} cannot be started: ${told}`
    expect(await room.reached('failedToSpawn')).toMatchObject({ failures: 1, message })
  })

  test('a file the kernel cannot run', async () => {
    await using room = await ServerRoom.create()
    const executable = join(room.folder, 'nonsense')
    await writeFile(executable, Buffer.from([0, 1, 2, 3]))
    await chmod(executable, 0o755)
    room.start({}, { executable })
    expect(await room.settled()).toMatchObject({
      code: 127,
      message: expect.stringMatching(/^nonsense exited with code 127 while starting: .* not found\.$/) as string,
    })
  })

  test('output that has nowhere to go', async () => {
    await using room = await ServerRoom.create()
    await writeFile(join(room.folder, 'runs'), '')
    room.start()
    expect((await room.reached('failedToSpawn')).message).toMatch(/^The output of the server cannot be written to /)
  })
})

describe('a start that takes its time', () => {
  test('is not timed out as long as output grows', async () => {
    await using room = await ServerRoom.create()
    room.start({ loadMs: 2_000 }, { startupStallMs: 800 })
    await room.reached('ready')
  })

  test('is ended when nothing grows any more, and the setting is named', async () => {
    await using room = await ServerRoom.create()
    room.start({ loadMs: 60_000, quietLoad: true }, { startupStallMs: 600 })
    expect(await room.settled()).toMatchObject({
      cause: 'stalled',
      outOf: 'start',
      failures: 1,
      message:
        'sample-server.cjs made no progress for 0.6 s while starting (its memory did not grow, it wrote nothing and did not become ready), so the agent stopped it; if this model needs longer, raise --startup-timeout.',
    })
    expect(room.kinds()).toEqual(['starting', 'starting', 'loading', 'stopping', 'exited', 'settled'])
  })

  test('is ended when it listens on another port', async () => {
    await using room = await ServerRoom.create()
    room.start({ wrongPort: true }, { startupStallMs: 400 })
    expect(await room.settled()).toMatchObject({ cause: 'stalled' })
  })
})

test('a second server under the same key is refused while the first is there', async () => {
  await using room = await ServerRoom.create()
  room.start()
  expect(() => room.start()).toThrow('a/b still has a server (starting): stop it and wait until it is over.')
  expect(() => room.servers.forget('a/b')).toThrow(
    'a/b still has a server (starting): stop it and wait until it is over.',
  )
  await room.servers.stop('a/b')
  room.servers.forget('a/b')
  expect(room.servers.get('a/b')).toBeUndefined()
})
