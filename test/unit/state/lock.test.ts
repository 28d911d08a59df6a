import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { acquireLock, type LockOptions } from '../../../src/agent-core/state/lock.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let file: string
beforeEach(async () => {
  folder = await temporaryFolder()
  file = path.join(folder.dir, 'agent.lock')
})
afterEach(async () => folder[Symbol.asyncDispose]())

const since = '2026-01-02T03:04:05.000Z'
/** Which processes there are, by pid, and when they started. */
const take = (pid: number, processes: Record<number, string>, more: Partial<LockOptions> = {}) =>
  acquireLock({
    file,
    pid,
    now: () => new Date(since),
    processStartTime: (wanted) => Promise.resolve(processes[wanted]),
    ...more,
  })

test('the first agent gets the lock, the second is told who has it and since when', async () => {
  const processes = { 10: 'noon', 11: 'noon' }
  const first = await take(10, processes)
  expect([first.ok, await take(11, processes)]).toEqual([
    true,
    {
      ok: false,
      holder: { pid: 10, since },
      message: `Another agent (process 10, since ${since}) uses this state folder: stop it, or give this one another --state-dir.`,
    },
  ])
})

test('a released lock is free, and nothing is left in the folder', async () => {
  const first = await take(10, { 10: 'noon' })
  if (first.ok) await first.lock.release()
  const afterRelease = await readdir(folder.dir)
  const second = await take(11, { 11: 'noon' })
  expect({
    afterRelease,
    ok: second.ok,
    left: await readdir(folder.dir),
    mode: (await stat(file)).mode & 0o777,
  }).toEqual({
    afterRelease: [],
    ok: true,
    left: ['agent.lock'],
    mode: 0o600,
  })
})

test.each([
  { why: 'whose process is gone', processes: { 11: 'noon' } },
  { why: 'whose pid is another process by now', processes: { 10: 'midnight', 11: 'noon' } },
])('a lock $why is taken over', async ({ processes }) => {
  await take(10, { 10: 'noon' })
  expect([await take(11, processes), await readdir(folder.dir)]).toMatchObject([
    { ok: true, wasStale: true },
    ['agent.lock'],
  ])
})

test.each([[''], ['{"pid":'], ['{"pid":"10"}'], ['4711\n'], ['\u0000\u0000']])(
  'a lock file of %j is no lock',
  async (content) => {
    await writeFile(file, content)
    expect(await take(11, { 11: 'noon' })).toMatchObject({ ok: true, wasStale: true })
  },
)

test('releasing a lock that somebody else has taken over leaves theirs alone', async () => {
  const slow = await take(10, { 10: 'noon' })
  await take(11, { 11: 'noon' })
  if (slow.ok) await slow.lock.release()
  expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ pid: 11 })
})

test('a live lock that was moved away by mistake, since another agent was faster, is put back', async () => {
  await take(10, { 10: 'noon' })
  const processes: Record<number, string> = { 11: 'noon', 12: 'noon' }
  // Agent 12 looks at the stale lock of 10, and before it acts on what it saw, agent 11 has taken the lock over.
  let overtaken = false
  const second = await take(12, processes, {
    processStartTime: async (pid) => {
      if (pid === 10 && !overtaken) {
        overtaken = true
        await take(11, processes)
      }
      return processes[pid]
    },
  })
  expect([second, JSON.parse(await readFile(file, 'utf8')), await readdir(folder.dir)]).toMatchObject([
    { ok: false, holder: { pid: 11 } },
    { pid: 11 },
    ['agent.lock'],
  ])
})

test('an agent that cannot tell its own start time takes no lock, since others would take it for stale', async () => {
  expect(await take(10, {})).toEqual({
    ok: false,
    holder: undefined,
    message: `The lock ${file} cannot be taken: the start time of process 10 cannot be read.`,
  })
})

test('a folder that is not there is a sentence, not an exception', async () => {
  file = path.join(folder.dir, 'missing', 'agent.lock')
  expect(await take(10, { 10: 'noon' })).toMatchObject({
    ok: false,
    message: expect.stringContaining('ENOENT') as unknown,
  })
})

test.skipIf(process.platform !== 'linux')(
  'of two processes that find a stale lock at once exactly one gets it, and the other knows which',
  async () => {
    await take(999_999_999, { 999_999_999: 'noon' })
    const processes = Array.from({ length: 2 }, () =>
      spawn(process.execPath, [path.join(import.meta.dirname, 'take-lock.ts'), file], {
        stdio: ['pipe', 'pipe', 'inherit'],
      }),
    )
    const answers = await Promise.all(
      processes.map(async ({ stdout }) => {
        const [line] = (await once(createInterface(stdout), 'line')) as [string]
        return JSON.parse(line) as { ok: boolean; holder: number }
      }),
    )
    for (const { stdin } of processes) stdin.end()
    await Promise.all(processes.map((child) => once(child, 'close')))
    const winner = answers.find(({ ok }) => ok)?.holder
    expect({
      winners: answers.filter(({ ok }) => ok).length,
      holders: new Set(answers.map(({ holder }) => holder)),
    }).toEqual({
      winners: 1,
      holders: new Set([winner]),
    })
  },
)
