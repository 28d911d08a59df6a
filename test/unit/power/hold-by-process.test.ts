import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test, vi } from 'vitest'
import { holdByProcess } from '../../../src/agent-core/power/stay-awake.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { eventually } from '../../support/eventually.ts'

/** As `systemd-inhibit … cat` and caffeinate do, it ends with its input or with a signal; found by its last argument. */
const program = (mark: string) => ({ command: '/bin/sh', args: ['-c', 'cat; exit 0', mark] })

const runs = async (mark: string): Promise<number> =>
  (await hostPlatform().processes()).filter(({ commandLine }) => commandLine === `/bin/sh -c cat; exit 0 ${mark}`)
    .length

test('the process is there while it is held and gone when it is released', async () => {
  const mark = randomUUID()
  const hold = holdByProcess(program(mark), () => undefined)
  onTestFinished(() => hold.release())
  await eventually(async () => (await runs(mark)) === 1)
  expect(hold.isHeld).toBe(true)
  hold.release()
  expect(hold.isHeld).toBe(false)
  await eventually(async () => (await runs(mark)) === 0)
})

test('the process ends with an agent that is killed', async () => {
  const mark = randomUUID()
  const { command, args } = program(mark)
  const agent = spawn(
    process.execPath,
    [fileURLToPath(new URL('agent-that-holds.ts', import.meta.url)), command, ...args],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  onTestFinished(() => void agent.kill('SIGKILL'))
  await once(agent.stdout, 'data')
  await eventually(async () => (await runs(mark)) === 1)
  agent.kill('SIGKILL')
  await eventually(async () => (await runs(mark)) === 0)
})

test.each([
  ['cannot be started', { command: '/nowhere/caffeinate', args: [] }, [{ error: expect.any(Error) as Error }]],
  ['ends by itself', { command: '/bin/sh', args: ['-c', 'exit 3'] }, [{ code: 3, signal: null }]],
])('one that %s is told once, and holds nothing', async (_what, broken, wanted) => {
  const told: unknown[] = []
  const hold = holdByProcess(broken, (how) => void told.push(how))
  await eventually(() => !hold.isHeld)
  hold.release()
  expect(told).toEqual(wanted)
})

test('where no descriptor is left that is told, and holds nothing', async () => {
  const script = fileURLToPath(new URL('agent-without-descriptors.ts', import.meta.url))
  const agent = spawn('/bin/sh', ['-c', `ulimit -n 64; exec "$0" "$1"`, process.execPath, script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  expect(await text(agent.stdout)).toBe('EMFILE false\n')
})

test('the process gets nothing of our environment', async () => {
  vi.stubEnv('METALBAR_TEST_SECRET', 'secret')
  onTestFinished(() => void vi.unstubAllEnvs())
  const told: unknown[] = []
  const isSecret = { command: '/bin/sh', args: ['-c', 'test -z "$METALBAR_TEST_SECRET" && test "$LC_ALL" = C'] }
  holdByProcess(isSecret, (how) => void told.push(how))
  await eventually(() => told.length > 0)
  expect(told).toEqual([{ code: 0, signal: null }])
})

test('a release is no end by itself', async () => {
  const mark = randomUUID()
  const told: unknown[] = []
  const hold = holdByProcess(program(mark), (how) => void told.push(how))
  await eventually(async () => (await runs(mark)) === 1)
  hold.release()
  await eventually(async () => (await runs(mark)) === 0)
  expect(told).toEqual([])
})
