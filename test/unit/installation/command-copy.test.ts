import { chmod, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { copiedCommand, copyCommand, isCopied, onceCopied } from '../../../src/installation/command-copy.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

test('the copy outlives the command, only its user may use it, and another version takes its place', async () => {
  await using folder = await temporaryFolder()
  const request = { command: path.join(folder.dir, 'metal-agent'), stateDir: path.join(folder.dir, 'state') }
  await writeFile(request.command, 'one')
  await chmod(request.command, 0o644)
  const copy = await copyCommand(request)
  const first = [await readFile(copy, 'utf8'), (await stat(copy)).mode & 0o777, await isCopied(request)]
  await writeFile(request.command, 'two')
  const outdated = await isCopied(request)
  await copyCommand(request)
  expect([first, outdated, await readFile(copy, 'utf8'), await readdir(path.dirname(copy))]).toEqual([
    ['one', 0o700, true],
    false,
    'two',
    ['metal-agent'],
  ])
})

test('a link in its place is replaced, and what it leads to stays', async () => {
  await using folder = await temporaryFolder()
  const request = { command: path.join(folder.dir, 'metal-agent'), stateDir: path.join(folder.dir, 'state') }
  const other = path.join(folder.dir, 'other')
  await Promise.all([writeFile(request.command, 'one'), writeFile(other, 'one')])
  const copy = await copyCommand(request)
  await rm(copy)
  await symlink(other, copy)
  await writeFile(request.command, 'two')
  await copyCommand(request)
  expect([await readFile(copiedCommand(request.stateDir), 'utf8'), await readFile(other, 'utf8')]).toEqual([
    'two',
    'one',
  ])
})

test('an agent that runs keeps to the version with which it began', async () => {
  await using folder = await temporaryFolder()
  const request = { command: path.join(folder.dir, 'metal-agent'), stateDir: path.join(folder.dir, 'state') }
  await writeFile(request.command, 'one')
  const copied = onceCopied(request)
  const copy = await copied()
  await writeFile(request.command, 'two')
  expect([await copied(), await readFile(copy, 'utf8')]).toEqual([copy, 'one'])
})
