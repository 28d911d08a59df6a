import { mkdir, readdir, symlink } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { traceKinds, type TraceKind } from '../../../src/contract/uninstall.ts'
import { listTraces, removeTraces } from '../../../src/installation/uninstall/traces.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'

const silently = { chosen: new Set<TraceKind>(traceKinds), onStep: () => undefined }
const nothing = { security: 'exit 44', defaults: 'exit 1' }

/** Answers until it is asked to delete. */
const thereUntil = (verb: string, marker: string, none: number) =>
  `case $1 in ${verb}) : > '${marker}';; *) test ! -e '${marker}' || exit ${none};; esac`

test('the key in the keychain and what macOS remembers are asked for by name, deleted, and asked for again', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  await there.programs({
    security: thereUntil('delete-generic-password', there.at('no-key'), 44),
    defaults: thereUntil('delete', there.at('no-defaults'), 1),
  })
  const parts = await there.parts()
  const listed = await listTraces(parts)
  expect(listed.map(({ kind, places }) => [kind, places[0]?.path])).toEqual([
    ['keychain', 'Metalbar Safe Storage'],
    ['macPreferences', path.join(there.home, 'Library/Preferences/dev.metalbar.app.plist')],
  ])
  const removals = await removeTraces(parts, silently)
  expect(removals.map(({ isGone }) => isGone)).toEqual([true, true])
  const calls = await there.called()
  expect(calls.filter((call) => call.includes('delete'))).toEqual([
    'security delete-generic-password -s Metalbar Safe Storage',
    'defaults delete dev.metalbar.app',
  ])
  // Whoever asks for the secret itself makes macOS ask the person.
  expect(calls.filter((call) => /find-generic-password.* -[gw]\b/.test(call))).toEqual([])
})

test('a keychain that does not give its item up is said with what it says and the line to do it by hand', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  const locked = 'echo "User interaction is not allowed." >&2; exit 36'
  await there.programs({ ...nothing, security: `case $1 in delete*) ${locked};; esac` })
  const [removal] = await removeTraces(await there.parts(), silently)
  expect(removal).toEqual({
    kind: 'keychain',
    what: 'The key of the token in the keychain',
    isGone: false,
    message: 'The keychain says: User interaction is not allowed.',
    byHand: ["security delete-generic-password -s 'Metalbar Safe Storage'"],
  })
})

test.for([
  ['echo " It is locked. " >&2; exit 1', 'The keychain does not answer: It is locked.'],
  ['exit 51', 'The keychain does not answer: code 51'],
])('a keychain that ends with "%s" when it is asked is said so', async ([security = '', problem]) => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  await there.programs({ ...nothing, security })
  const listed = await listTraces(await there.parts())
  expect(listed.map(({ kind, places, problem: said }) => [kind, places, said])).toEqual([['keychain', [], problem]])
})

test("the user's rule of sudo is removed by root; another user's stays", async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  await there.programs(nothing)
  const folder = there.at('root/etc/sudoers.d')
  const own = path.join(folder, `metalbar-powermetrics-${there.host.user.id}`)
  const other = await there.write(path.join(folder, 'metalbar-powermetrics-4242'))
  await there.write(own)
  const asked: (readonly string[])[] = []
  const refused = await removeTraces(await there.parts(), silently)
  expect(refused.map(({ isGone, byHand }) => [isGone, byHand])).toEqual([[false, [`sudo rm -f ${own}`]]])
  const wrongPassword = await removeTraces(await there.parts({ asRoot: () => Promise.resolve(1) }), silently)
  expect(wrongPassword[0]?.message).toContain('sudo ended with exit code 1.')
  const idle = await removeTraces(await there.parts({ asRoot: () => Promise.resolve(0) }), silently)
  expect([idle[0]?.isGone, idle[0]?.message]).toEqual([
    false,
    expect.stringContaining('It was there again after it was removed.') as unknown,
  ])
  const asRoot = async (words: readonly string[]) => {
    asked.push(words)
    const { rm } = await import('node:fs/promises')
    await rm(own)
    return 0
  }
  const [removal] = await removeTraces(await there.parts({ asRoot }), silently)
  expect([removal?.isGone, asked]).toEqual([true, [['/bin/rm', '-f', own]]])
  expect(await readdir(folder)).toEqual([path.basename(other)])
})

test('the link to the command goes wherever an app made it; another metal-agent stays', async () => {
  await using there = await uninstallWorld()
  const [ours, brew] = [path.join(there.home, '.local/bin'), there.at('root/opt/homebrew/bin')]
  await mkdir(ours, { recursive: true })
  await mkdir(brew, { recursive: true })
  // One in a folder that only PATH names.
  for (const folder of [ours, there.at('bin')]) {
    await symlink('/Applications/Metalbar.app/Contents/Resources/bin/metal-agent', path.join(folder, 'metal-agent'))
  }
  await symlink('../Cellar/metalbar/1.0/bin/metal-agent', path.join(brew, 'metal-agent'))
  const removals = await removeTraces(await there.parts(), silently)
  expect(removals.map(({ kind, isGone }) => [kind, isGone])).toEqual([['commandLink', true]])
  expect(await Promise.all([ours, there.at('bin'), brew].map((folder) => readdir(folder)))).toEqual([
    ...[[], []],
    ['metal-agent'],
  ])
})
