import { chmod, lstat, mkdir, readdir, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { InstallationError } from '../../../src/installation/installation-host.ts'
import { copiesFolder, versionedCopyOf } from '../../../src/installation/versioned-copy.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const minute = 60_000

async function world() {
  const folder = await temporaryFolder()
  const stateDir = path.join(folder.dir, 'state')
  const app = path.join(folder.dir, 'Metalbar.app')
  const command = path.join(app, 'metal-agent')
  await mkdir(app)
  const ships = async (content: string) => {
    await writeFile(command, `#!/bin/sh\necho ${content}\n`)
    await chmod(command, 0o755)
  }
  await ships('one')
  const names = () => readdir(copiesFolder(stateDir))
  /** A minute after the last one. */
  const copy = async (version: string, inUse: readonly string[] = []) => {
    const made = await versionedCopyOf({ command, version, stateDir, inUse })
    for (const name of await names()) {
      const folder = path.join(copiesFolder(stateDir), name)
      const earlier = (await stat(folder)).mtimeMs - minute
      await utimes(folder, earlier / 1_000, earlier / 1_000)
    }
    return made
  }
  return { [Symbol.asyncDispose]: folder[Symbol.asyncDispose], stateDir, command, app, ships, copy, names }
}

test('the copy runs after the app that it came with is gone, and is for its owner alone', async () => {
  await using here = await world()
  const command = await here.copy('1.2.3')
  await execa('rm', ['-r', here.app])
  expect((await execa(command)).stdout).toBe('one')
  expect(path.relative(here.stateDir, command)).toMatch(/^versions\/1\.2\.3-[0-9a-f]{12}\/metal-agent$/)
  expect((await stat(command)).mode & 0o777).toBe(0o700)
})

test('a link to the command is followed', async () => {
  await using here = await world()
  const link = path.join(here.app, 'link')
  await symlink(here.command, link)
  const command = await versionedCopyOf({ command: link, version: '1.2.3', stateDir: here.stateDir })
  expect((await execa(command)).stdout).toBe('one')
})

test('the same command is copied once, and another build of one version beside it', async () => {
  await using here = await world()
  const first = await here.copy('1.2.3')
  const { ino } = await stat(first)
  expect([await here.copy('1.2.3'), (await stat(first)).ino]).toEqual([first, ino])
  await here.ships('two')
  expect(await here.copy('1.2.3')).not.toBe(first)
  expect(await here.names()).toHaveLength(2)
})

test('the new copy and the last one stay, and what the service starts until it is told otherwise', async () => {
  await using here = await world()
  const copies: string[] = []
  for (const version of ['1.0.0', '1.1.0', '1.2.0']) {
    await here.ships(version)
    copies.push(await here.copy(version, copies[0] === undefined ? [] : [copies[0]]))
  }
  expect((await here.names()).map((name) => name.slice(0, 5))).toEqual(['1.0.0', '1.1.0', '1.2.0'])
  await here.ships('1.3.0')
  await here.copy('1.3.0', copies[2] === undefined ? [] : [copies[2]])
  expect((await here.names()).map((name) => name.slice(0, 5))).toEqual(['1.2.0', '1.3.0'])
})

test('who goes back to the last version can go forward again', async () => {
  await using here = await world()
  for (const version of ['1.0.0', '1.1.0', '1.0.0']) {
    await here.ships(version)
    await here.copy(version)
  }
  await here.ships('1.2.0')
  await here.copy('1.2.0')
  expect((await here.names()).map((name) => name.slice(0, 5))).toEqual(['1.0.0', '1.2.0'])
})

test('a copy that was damaged is made anew', async () => {
  await using here = await world()
  const command = await here.copy('1.2.3')
  await writeFile(command, 'half of it')
  await here.copy('1.2.3')
  expect(await readFile(command, 'utf8')).toContain('echo one')
})

test('a link at the place of the copy is replaced, and what it leads to is left alone', async () => {
  await using here = await world()
  const command = await here.copy('1.2.3')
  const [copy, others] = [path.dirname(command), path.join(here.app, 'others')]
  await execa('mv', [copy, others])
  await writeFile(path.join(others, 'metal-agent'), 'of somebody')
  await symlink(others, copy)
  expect((await execa(await here.copy('1.2.3'))).stdout).toBe('one')
  expect(await readFile(path.join(others, 'metal-agent'), 'utf8')).toBe('of somebody')
})

test('a link to the same bytes is no copy, since they could change', async () => {
  await using here = await world()
  const command = await here.copy('1.2.3')
  const [copy, others] = [path.dirname(command), path.join(here.app, 'others')]
  await execa('mv', [copy, others])
  await symlink(others, copy)
  await here.copy('1.2.3')
  expect((await lstat(copy)).isSymbolicLink()).toBe(false)
})

test('what a killed copy left is removed an hour later, what is none of ours never', async () => {
  await using here = await world()
  await here.copy('1.0.0')
  const folder = copiesFolder(here.stateDir)
  const [old, young] = ['a', 'b'].map((digit) => `.1.0.0-0123456789ab.${digit.repeat(36)}.unfinished`)
  const before = new Date(Date.now() - 61 * minute)
  for (const name of [old ?? '', young ?? '', 'notes']) await mkdir(path.join(folder, name))
  for (const name of [old ?? '', 'notes']) await utimes(path.join(folder, name), before, before)
  await here.copy('1.0.0')
  expect(await here.names()).toEqual([young, expect.stringMatching(/^1\.0\.0-/), 'notes'])
})

test('two copies at the same time end with one that is whole', async () => {
  await using here = await world()
  const request = { command: here.command, version: '1.2.3', stateDir: here.stateDir }
  const made = await Promise.all([versionedCopyOf(request), versionedCopyOf(request)])
  expect(new Set(made).size).toBe(1)
  expect((await execa(made[0])).stdout).toBe('one')
})

test('a command that is not there leaves nothing behind and is named', async () => {
  await using here = await world()
  const missing = path.join(here.app, 'missing')
  const copied = versionedCopyOf({ command: missing, version: '1.2.3', stateDir: here.stateDir })
  await expect(copied).rejects.toThrow(InstallationError)
  await expect(copied).rejects.toThrow(missing)
  expect(await here.names()).toEqual([])
})

test('a version that would lead out of the folder is refused', async () => {
  await using here = await world()
  await expect(versionedCopyOf({ command: here.command, version: '../x', stateDir: here.stateDir })).rejects.toThrow(
    'is no version',
  )
})
