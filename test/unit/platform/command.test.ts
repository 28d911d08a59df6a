import { expect, test } from 'vitest'
import { runCommand } from '../../../src/agent-core/platform/command.ts'
import { PlatformError } from '../../../src/agent-core/platform/platform.ts'

test('a command answers with its output and exit code, and sees none of our environment', async () => {
  expect(await runCommand()('/usr/bin/env', [])).toEqual({ exitCode: 0, stdout: 'LC_ALL=C\nTZ=UTC', stderr: '' })
  expect(await runCommand()('/bin/sh', ['-c', 'echo partly; echo why >&2; exit 3'])).toEqual({
    exitCode: 3,
    stdout: 'partly',
    stderr: 'why\n',
  })
})

test('a command that is not there is an error that names it', async () => {
  await expect(runCommand()('/usr/sbin/no-such-command', [])).rejects.toThrow(
    new PlatformError('/usr/sbin/no-such-command could not be run: spawn /usr/sbin/no-such-command ENOENT.'),
  )
})

test('a command that hangs is ended at its time limit', async () => {
  await expect(runCommand(50)('/bin/sleep', ['60'])).rejects.toThrow(
    new PlatformError('/bin/sleep did not answer within 50 ms.'),
  )
})
