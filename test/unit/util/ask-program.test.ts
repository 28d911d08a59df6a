import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { askProgram, ProgramError } from '../../../src/agent-core/util/ask-program.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const env = { PATH: '/usr/bin:/bin' }
const timeLimitMs = 20_000
const sh = (script: string) => ({ command: '/bin/sh', args: ['-c', script], env, timeLimitMs })

test('a program answers with its exit code and what it printed, sees only the given environment, and has nobody at its input', async () => {
  expect(await askProgram({ command: '/usr/bin/env', env: { ONLY: 'this' }, timeLimitMs })).toEqual({
    exitCode: 0,
    stdout: 'ONLY=this\n',
    stderr: '',
  })
  expect(await askProgram(sh('cat; echo said; echo complained >&2; exit 3'))).toEqual({
    exitCode: 3,
    stdout: 'said\n',
    stderr: 'complained\n',
  })
})

test('a program that is not there is an error that names it', async () => {
  await expect(askProgram({ command: '/no/such-program', env, timeLimitMs })).rejects.toThrow(
    new ProgramError('/no/such-program could not be run: spawn /no/such-program ENOENT.'),
  )
})

test('a program that hangs is killed at its time limit together with what it started', async () => {
  await using folder = await temporaryFolder()
  const note = join(folder.dir, 'grandchild')
  const asked = askProgram({ ...sh(`sleep 600 & echo $! > ${note}; wait`), timeLimitMs: 1_000 })
  await expect(asked).rejects.toThrow('/bin/sh did not answer within 1000 ms.')
  await isGone(await pidIn(note))
})

test('an abort kills it together with what it started, and throws its reason', async () => {
  await using folder = await temporaryFolder()
  const note = join(folder.dir, 'grandchild')
  const giveUp = new AbortController()
  const asked = askProgram({
    ...sh(`sleep 600 & echo $! > ${note}.new; mv ${note}.new ${note}; wait`),
    signal: giveUp.signal,
  })
  await eventually(() => access(note).then(() => true), { what: 'the grandchild' })
  giveUp.abort(new Error('nobody waits'))
  await expect(asked).rejects.toThrow('nobody waits')
  await isGone(await pidIn(note))
})

test('what a program leaves behind when it ends is gone with its answer', async () => {
  const { exitCode, stdout } = await askProgram(sh('sleep 600 & echo $!'))
  expect(exitCode).toBe(0)
  await isGone(Number(stdout))
})

test('the answer does not wait for a process that left the group with the pipe in its hands', async () => {
  await using folder = await temporaryFolder()
  const note = join(folder.dir, 'stranger')
  const script = `setsid sh -c 'echo $$ > ${note}; exec sleep 600' & until [ -s ${note} ]; do sleep 0.01; done; echo said`
  expect(await askProgram(sh(script))).toEqual({ exitCode: 0, stdout: 'said\n', stderr: '' })
  // It is in nobody's group but its own.
  process.kill(await pidIn(note), 'SIGKILL')
})

test('a signal that ends a program is not an exit code', async () => {
  expect(await askProgram(sh('echo partly; kill -TERM $$'))).toEqual({ exitCode: null, stdout: 'partly\n', stderr: '' })
})

test('a program that prints without end is killed', async () => {
  await expect(askProgram({ ...sh('yes'), maxOutputBytes: 1_000 })).rejects.toThrow('printed more than 1000 bytes')
})

const pidIn = async (file: string): Promise<number> => Number(await readFile(file, 'utf8'))

/** Its new parent may take a moment to collect it. */
async function isGone(pid: number): Promise<void> {
  expect(pid).toBeGreaterThan(1)
  await eventually(
    async () => {
      const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => 'gone')
      return stat === 'gone' || / Z /.test(stat)
    },
    { what: 'the end of the grandchild' },
  )
}
