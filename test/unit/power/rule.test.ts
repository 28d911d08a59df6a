import { chmod, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { userInfo } from 'node:os'
import { expect, test } from 'vitest'
import { powerRule } from '../../../src/agent-core/api/machine-queries.ts'
import { powerIntervalsMs } from '../../../src/agent-core/power/power-source.ts'
import { macCommands } from '../../../src/agent-core/power/powermetrics.ts'
import { fragmentFile, fragmentFor, ruleState } from '../../../src/agent-core/power/sudoers.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const tooWide = 'It is too wide.'

test.each([
  { leave: { intervalsMs: powerIntervalsMs }, hasFile: true, state: 'installed' },
  { leave: { intervalsMs: powerIntervalsMs }, hasFile: false, state: 'installed' },
  { leave: { intervalsMs: powerIntervalsMs, tooWide }, hasFile: true, state: 'different' },
  { leave: { intervalsMs: [1_000] }, hasFile: true, state: 'different' },
  { leave: { intervalsMs: [1_000] }, hasFile: false, state: 'different' },
  { leave: { intervalsMs: [] }, hasFile: true, state: 'different' },
  { leave: { intervalsMs: [] }, hasFile: undefined, state: 'missing' },
  { leave: { intervalsMs: [] }, hasFile: false, state: 'missing' },
])('sudo allows $leave, file there: $hasFile = $state', ({ leave, hasFile, state }) => {
  expect(ruleState(leave, hasFile)).toBe(state)
})

/** A sudo that prints such a list of rules. */
async function ask(listing: string) {
  await using folder = await temporaryFolder()
  const sudo = path.join(folder.dir, 'sudo')
  await writeFile(path.join(folder.dir, 'listing'), listing)
  await writeFile(sudo, '#!/bin/sh\ncat "$(dirname "$0")/listing"\n')
  await chmod(sudo, 0o700)
  return await powerRule({ platform: 'darwin', commands: { ...macCommands, sudo } })
}

const { username: name, uid: id } = userInfo()
const rule = fragmentFor({ name, id })

test('the rule is told before it is installed, and how sudo stands to it', async () => {
  const file = fragmentFile({ name, id })
  const rules = rule.split('\n').flatMap((line) => / = (\(root\) .*)/.exec(line)?.[1] ?? [])
  const listing = rules.map((line) => `    ${line}\n`).join('')
  expect(await ask('')).toEqual({ state: 'missing', file, rule })
  expect(await ask(listing)).toEqual({ state: 'installed', file, rule })
  expect(await ask(`${listing}    (root) NOPASSWD: ALL\n`)).toMatchObject({
    state: 'different',
    message: expect.stringContaining('too wide') as string,
  })
  expect(await powerRule({ platform: 'linux' })).toEqual({ state: 'notHere', file, rule })
})

test('a sudo that gives no answer leaves it unknown, with the reason', async () => {
  expect(await powerRule({ platform: 'darwin', commands: { ...macCommands, sudo: '/nowhere/sudo' } })).toMatchObject({
    state: 'unknown',
    message: expect.stringContaining('/nowhere/sudo') as string,
  })
})
