import { chown, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { acquireLock, startTimeOf } from '../../../src/agent-core/state/lock.ts'
import { socketPathFor } from '../../../src/agent-core/state/socket-path.ts'
import { serveOnSocket } from '../../../src/serve/socket-server.ts'
import { RecordingDoor } from '../../support/carriers/recording-door.ts'
import { sampleSnapshot } from '../../support/sample-snapshot.ts'
import { treeOf } from '../../support/tree-of.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'
import { runVerb } from '../../support/run-verb.ts'

interface Terminal {
  readonly answers?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  readonly homeDir?: string
}

type World = Awaited<ReturnType<typeof uninstallWorld>>

/** `metal-agent uninstall --everything …` in that home folder; with answers a person types them. */
async function uninstall({ home, stateDir, at }: World, words: readonly string[], terminal: Terminal = {}) {
  const { answers, env = {}, homeDir = home } = terminal
  const left = [...(answers ?? [])]
  const asked: string[] = []
  const ask = (question: string) => {
    asked.push(question)
    return Promise.resolve(left.shift())
  }
  const said = await runVerb(['uninstall', '--everything', '--state-dir', stateDir, ...words], homeDir, {
    ...(answers && { ask }),
    env: { PATH: '', ...env },
    platform: 'linux',
    cwd: at('.'),
  })
  return { asked, ...said }
}

async function filled() {
  const there = await uninstallWorld()
  for (const name of ['node.json', 'settings.json', 'metalbar.log']) await there.write(path.join(there.stateDir, name))
  return there
}

test('without a terminal and without --yes everything is listed and nothing removed', async () => {
  await using there = await filled()
  const before = await treeOf(there.home)
  const { code, stdout, stderr } = await uninstall(there, [])
  expect(code).toBe(4)
  expect(stderr).toBe('metal-agent: Nothing was removed: run it again with --yes.\n')
  expect(stdout.split('\n').filter((line) => line.startsWith('['))).toEqual([
    expect.stringMatching(/^\[x\] 1 {2}Logs of the agent and of its servers {2}\d+ B$/),
    expect.stringMatching(/^\[x\] 2 {2}Settings and preferences {2}\d+ B$/),
    expect.stringMatching(/^\[x\] 3 {2}State: identity, history, holds {2}\d+ B$/),
  ])
  expect(await treeOf(there.home)).toEqual(before)
})

test('a person changes ticks by number until "remove", which removes what is ticked then', async () => {
  await using there = await filled()
  const { code, stdout, stderr, asked } = await uninstall(there, [], { answers: ['2 9', '1, 3', '3', 'remove'] })
  expect([code, asked.length]).toEqual([0, 4])
  expect(stderr).toContain('metal-agent: "9" is not a number in the list.\n')
  expect(stdout).toMatch(/^done {2}State: identity, history, holds: Removed, \d+ B\.$/m)
  expect(await readdir(there.stateDir)).toEqual(['metalbar.log', 'settings.json'])
})

test.each([{ answers: [''] }, { answers: [] }])('a person who types nothing ends it: $answers', async ({ answers }) => {
  await using there = await filled()
  const before = await treeOf(there.home)
  const { code } = await uninstall(there, [], { answers })
  expect([code, await treeOf(there.home)]).toEqual([4, before])
})

test('--dry-run changes nothing, --keep leaves a kind, and a word that is no kind is refused with all kinds', async () => {
  await using there = await filled()
  const before = await treeOf(there.home)
  expect((await uninstall(there, ['--dry-run', '--yes'])).code).toBe(0)
  const wrong = await uninstall(there, ['--yes', '--keep', 'modles'])
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('--keep "modles" is not one of the kinds: ')])
  expect(await treeOf(there.home)).toEqual(before)
  expect((await uninstall(there, ['--yes', '--keep', 'settings'])).code).toBe(0)
  expect(await readdir(there.stateDir)).toEqual(['settings.json'])
})

test('an agent that has the state folder and does not answer is named, and nothing is removed', async () => {
  await using there = await filled()
  const platform = hostPlatform()
  const file = path.join(there.stateDir, 'agent.lock')
  const locked = await acquireLock({ file, processStartTime: (pid) => startTimeOf(platform, pid) })
  const before = await treeOf(there.home)
  const { code, stderr } = await uninstall(there, ['--yes'])
  expect([code, stderr]).toEqual([
    1,
    `metal-agent: An agent that does not answer has the state folder (process ${process.pid}): end it first. Nothing was removed.\n`,
  ])
  expect(await treeOf(there.home)).toEqual(before)
  if (locked.ok) await locked.lock.release()
})

test.skipIf(process.getuid?.() !== 0)("root touches nothing of another user's, by sudo or by name", async () => {
  await using there = await filled()
  const bySudo = await uninstall(there, ['--yes'], { env: { SUDO_USER: 'anna' } })
  expect([bySudo.code, bySudo.stderr]).toEqual([1, expect.stringContaining('run it again as anna, without sudo')])
  await chown(there.stateDir, 4242, 4242)
  const byName = await uninstall(there, ['--yes'])
  expect([byName.code, byName.stderr]).toEqual([1, expect.stringContaining('belongs to another user (4242)')])
  expect((await readdir(there.stateDir)).length).toBe(3)
})

test('a log goes where our own files name it, and not where somebody says it is over the socket', async () => {
  await using there = await filled()
  await there.write(there.at('told.log'))
  const noted = await there.write(there.at('noted.log'))
  await there.write(path.join(there.stateDir, 'log-file.json'), JSON.stringify({ logFile: noted }))
  const { cluster } = sampleSnapshot()
  const door = new RecordingDoor(sampleSnapshot({ services: [], cluster: { ...cluster, server: '' } }))
  const socketPath = socketPathFor(there.stateDir, tmpdir())
  const options = { socketPath, stateDir: there.stateDir, version: '1', door }
  const served = await serveOnSocket({ ...options, onError: () => undefined })
  if (!served.ok) throw new Error(served.message)
  door.onCommand = () => {
    setImmediate(() => void served.server.close())
    return Promise.resolve({ outcome: 'accepted', message: 'It ends.' })
  }
  const { code, stderr } = await uninstall(there, ['--yes'])
  expect([code, door.queries], stderr).toEqual([0, []])
  expect((await readdir(there.at('.'))).filter((name) => name.endsWith('.log'))).toEqual(['told.log'])
})
