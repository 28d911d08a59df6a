import { mkdir, readFile, utimes, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { checksums, packFolder } from '../../../tasks/package/archive.ts'
import { bundledPackages } from '../../../tasks/package/bundled-packages.ts'
import { packCommand } from '../../../tasks/package/command-archive.ts'
import { LicenceError, thirdPartyNotices } from '../../../tasks/package/notices.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function packed(parent: string, names: readonly string[]): Promise<string> {
  const folder = path.join(parent, 'metal-agent')
  await mkdir(folder, { recursive: true })
  for (const [hour, name] of names.entries()) {
    await writeFile(path.join(folder, name), `content of ${name}`)
    await utimes(path.join(folder, name), hour * 3_600, hour * 3_600)
  }
  return packFolder(folder)
}

test('an archive of the same content has the same bytes, whenever and in whatever order its files were written', async () => {
  await using one = await temporaryFolder()
  await using other = await temporaryFolder()
  const archives = [await packed(one.dir, ['a', 'b']), await packed(other.dir, ['b', 'a'])]
  const [first, second] = await Promise.all(archives.map((file) => readFile(file)))
  expect(first?.equals(second ?? Buffer.alloc(0))).toBe(true)
})

test('the command lies in its archive beside its licences, by the name of LLMKube’s agent too', async () => {
  await using folder = await temporaryFolder()
  const command = path.join(folder.dir, 'metal-agent-linux-x64')
  await mkdir(command)
  await writeFile(path.join(command, 'metal-agent'), '#!/bin/sh\necho started\n', { mode: 0o755 })
  const archive = await packCommand(command, [])
  const { stdout: listing } = await execa('tar', ['-tzf', archive])
  // In this order whatever the disk says, and no folder above them.
  expect(listing.split('\n')).toEqual(
    ['LICENSE', 'README.md', 'THIRD_PARTY_NOTICES', 'llmkube-metal-agent', 'metal-agent'].map(
      (name) => `metal-agent-linux-x64/${name}`,
    ),
  )
  await mkdir(path.join(folder.dir, 'unpacked'))
  await execa('tar', ['-xzf', archive, '-C', path.join(folder.dir, 'unpacked')])
  const { stdout } = await execa(path.join(folder.dir, 'unpacked/metal-agent-linux-x64/llmkube-metal-agent'))
  expect(stdout).toBe('started')
})

test('sha256sum accepts the checksums of an archive', async () => {
  await using folder = await temporaryFolder()
  const archive = await packed(folder.dir, ['a'])
  await writeFile(path.join(folder.dir, 'SHA256SUMS'), await checksums([archive]))
  const { stdout } = await execa('sha256sum', ['--check', 'SHA256SUMS'], { cwd: folder.dir })
  expect(stdout).toBe('metal-agent.tar.gz: OK')
})

const sound = { name: 'one', version: '1.0.0', identifier: 'MIT', text: 'Permission is hereby granted' }

test('the notices hold the licence of Node.js and of each package', () => {
  const notices = thirdPartyNotices('v24.0.0', 'Node.js is licensed', [sound])
  expect(notices).toMatch(/Node\.js v24\.0\.0[^]*Node\.js is licensed[^]*one 1\.0\.0 \(MIT\)[^]*Permission is hereby/)
})

test('a package that is in the public domain needs no text', () => {
  const free = { name: 'free', version: '2.0.0', identifier: 'Unlicense' }
  expect(thirdPartyNotices('v24.0.0', 'licence', [free])).toContain('free 2.0.0 (Unlicense)')
})

test.each([undefined, ''])('a package whose own text is %o is named with the text that is known of it', (text) => {
  const known = { name: 'lazy-val', version: '1.0.5', identifier: 'MIT', ...(text !== undefined && { text }) }
  expect(thirdPartyNotices('v24.0.0', 'licence', [known])).toContain('Vladimir Krivosheev')
})

test('of several bundles each version of a package is named once', async () => {
  await using folder = await temporaryFolder()
  const file = async (name: string, versions: readonly string[]) => {
    const entries = versions.map((version) => ({ ...sound, version }))
    await writeFile(path.join(folder.dir, name), JSON.stringify(entries))
    return path.join(folder.dir, name)
  }
  const found = await bundledPackages([await file('main', ['2.0.0', '1.0.0']), await file('window', ['1.0.0'])])
  expect(found.map(({ name, version }) => `${name}@${version}`)).toEqual(['one@1.0.0', 'one@2.0.0'])
})

test.each([
  ['names none', { name: 'one', version: '1.0.0', text: 'text' }, 'names no licence'],
  ['brings no text', { name: 'one', version: '1.0.0', identifier: 'MIT' }, 'brings no text'],
  ['is under one that nobody has judged', { ...sound, identifier: 'GPL-3.0-only' }, 'GPL-3.0-only'],
])('nothing is packed while the licence of a package %s', (_, one, words) => {
  const make = () => thirdPartyNotices('v24.0.0', 'licence', [sound, one])
  expect(make).toThrow(LicenceError)
  expect(make).toThrow(words)
})
