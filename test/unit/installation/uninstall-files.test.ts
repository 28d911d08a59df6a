import { glob, mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { socketPathFor } from '../../../src/agent-core/state/socket-path.ts'
import { traceKinds, type TraceKind } from '../../../src/contract/uninstall.ts'
import { kindInStateFolder, stateNames } from '../../../src/installation/uninstall/file-parts.ts'
import { listTraces, removeTraces } from '../../../src/installation/uninstall/traces.ts'
import { treeOf } from '../../support/tree-of.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'

const root = path.join(import.meta.dirname, '../../..')
const all: ReadonlySet<TraceKind> = new Set(traceKinds)
const silently = { chosen: all, onStep: () => undefined }

test('every name that the source joins to a state folder is in the table', async () => {
  const joined = /(?:join\((?:\w+\.)*stateDir,|migrationFolder\(\w+\),)\s*'([^']+)'/g
  const found = new Map<string, string>()
  for await (const file of glob('src/**/*.ts', { cwd: root })) {
    const text = await readFile(path.join(root, file), 'utf8')
    for (const [, name = ''] of text.matchAll(joined)) found.set(name, file)
  }
  // In a folder of their own, which is in the table.
  for (const name of ['migration.json', 'ingress.new']) found.delete(name)
  expect(found.size).toBeGreaterThan(15)
  expect([...found].filter(([name]) => kindInStateFolder(name) === undefined)).toEqual([])
})

test('names that are set aside, half written or being locked count as what they are of, and no others', () => {
  const uuid = '01234567-89ab-cdef-0123-456789abcdef'
  const names = [
    'ledger.json.broken-1764000000000',
    'settings.json.123456789',
    `agent.lock.${uuid}`,
    `agent.lock.stale-${uuid}`,
  ]
  expect(names.map(kindInStateFolder)).toEqual(['state', 'settings', 'state', 'state'])
  const others = ['notes.txt', 'ledger.json.bak', 'toString', 'settings.json~', 'runs.txt', 'my.kept']
  expect(others.map(kindInStateFolder)).toEqual(others.map(() => undefined))
})

test('files of ours go with their folder; a file of somebody else stays, is named, and keeps its folder', async () => {
  await using there = await uninstallWorld()
  const { stateDir, write } = there
  for (const name of ['node.json', 'settings.json', 'metalbar.log']) await write(path.join(stateDir, name))
  await write(path.join(stateDir, 'runs/default.tiny/run/output.log'))
  const foreign = await write(path.join(stateDir, 'notes.txt'), 'mine')
  const parts = await there.parts()
  const listed = await listTraces(parts)
  expect(listed.map(({ kind }) => kind)).toEqual(['logs', 'settings', 'state'])
  expect(listed.find(({ kind }) => kind === 'logs')?.places).toEqual([
    { path: path.join(stateDir, 'metalbar.log'), bytes: expect.any(Number) as number },
    { path: path.join(stateDir, 'runs'), bytes: expect.any(Number) as number },
  ])
  const removals = await removeTraces(parts, silently)
  expect(removals.map(({ isGone }) => isGone)).toEqual([true, true, true])
  expect(removals.at(-1)?.message).toContain(`${foreign} is not one of Metalbar's files, so it and its folder stay.`)
  expect(await readdir(stateDir)).toEqual(['notes.txt'])
})

test('a link in the state folder is removed, and what it leads to is not touched', async () => {
  await using there = await uninstallWorld()
  const { stateDir, write, at } = there
  await write(at('elsewhere/logs/precious.txt'), 'precious')
  await mkdir(stateDir, { recursive: true })
  await symlink(at('elsewhere/logs'), path.join(stateDir, 'runs'))
  await removeTraces(await there.parts(), silently)
  expect(await treeOf(at('elsewhere'))).toEqual(['logs/', expect.stringContaining('logs/precious.txt ') as string])
  expect(await readdir(path.dirname(stateDir))).toEqual([])
})

test('what is not chosen stays, with the state folder', async () => {
  await using there = await uninstallWorld()
  const { stateDir, write } = there
  for (const name of ['node.json', 'settings.json']) await write(path.join(stateDir, name))
  const chosen = new Set<TraceKind>(['state'])
  const removals = await removeTraces(await there.parts(), { ...silently, chosen })
  expect(removals.map(({ kind, isGone }) => [kind, isGone])).toEqual([['state', true]])
  expect(await readdir(stateDir)).toEqual(['settings.json'])
})

test('on a Mac everything that the app and macOS keep for it goes, and what is named alike stays', async () => {
  await using there = await uninstallWorld({ platform: 'darwin' })
  const { home, write, stateDir } = there
  await there.programs({ security: 'exit 44', defaults: 'exit 1' })
  const library = (name: string) => path.join(home, 'Library', name)
  const ours = [
    'Caches/dev.metalbar.app/Cache.db',
    'Caches/dev.metalbar.app.ShipIt/ShipItState.plist',
    'Caches/metalbar-updater/pending/update.zip',
    'HTTPStorages/dev.metalbar.app/httpstorages.sqlite',
    'WebKit/dev.metalbar.app/x',
    'Saved Application State/dev.metalbar.app.savedState/window_1.data',
    'Preferences/ByHost/dev.metalbar.app.0A1B.plist',
    'Logs/Metalbar/metal-agent.log',
    'Logs/Metalbar/metal-agent.log.3',
    'Logs/Metalbar/metal-agent.err.log',
    'Logs/DiagnosticReports/Metalbar-2026-11-23-130000.ips',
    'Logs/DiagnosticReports/Metalbar Helper (Renderer)-2026-11-23-130000.ips',
    'Logs/DiagnosticReports/metal-agent_2026-11-23-130000_mac.crash',
  ]
  const theirs = [
    'Caches/dev.metalbar.apple/x',
    'Caches/other/x',
    'Logs/DiagnosticReports/Metalbarista-2026-11-23-130000.ips',
    'Logs/DiagnosticReports/Safari-2026-11-23-130000.ips',
    'Preferences/com.apple.finder.plist',
  ]
  for (const name of theirs) await write(library(name))
  const before = await treeOf(home)
  for (const name of ours) await write(library(name))
  await write(path.join(stateDir, 'chromium/Preferences'))
  await write(path.join(stateDir, 'hub-token.encrypted'))
  const removals = await removeTraces(await there.parts(), silently)
  expect(removals.filter(({ isGone }) => !isGone)).toEqual([])
  const folders = /^Library\/(?:HTTPStorages|WebKit|Saved Application State|Preferences\/ByHost|Application Support)\/$/
  expect((await treeOf(home)).filter((line) => !folders.test(line))).toEqual(before)
})

test('what this process has open is left for its end, and said to be', async () => {
  await using there = await uninstallWorld()
  const { stateDir, write } = there
  const log = await write(path.join(stateDir, 'metalbar.log'))
  await write(path.join(stateDir, 'node.json'))
  const removals = await removeTraces(await there.parts({ inUse: ['metalbar.log'] }), silently)
  expect(removals.map(({ kind, isGone, message }) => [kind, isGone, message])).toEqual([
    ['logs', true, `${log} is removed once the app has ended.`],
    ['state', true, expect.stringMatching(/^Removed, \d+ B\.$/)],
  ])
  expect(await readdir(stateDir)).toEqual(['metalbar.log'])
})

test('a log that was sent elsewhere goes with its earlier files and its lock, and nothing beside it', async () => {
  await using there = await uninstallWorld()
  const log = await there.write(there.at('var/agent.log'))
  for (const name of ['agent.log.1', 'agent.log.lock', 'agent.log.mine', 'agent.log2']) {
    await there.write(there.at('var', name))
  }
  await removeTraces(await there.parts({ stated: { logFile: log } }), silently)
  expect(await readdir(there.at('var'))).toEqual(['agent.log.mine', 'agent.log2'])
})

test('a log that only the settings of a start name goes too', async () => {
  await using there = await uninstallWorld()
  const log = await there.write(there.at('var/agent.log'))
  await there.write(path.join(there.stateDir, 'start-settings.json'), JSON.stringify({ logFile: log, modelStore: 7 }))
  await removeTraces(await there.parts(), silently)
  expect(await readdir(there.at('var'))).toEqual([])
})

test('a state folder that is empty goes, and so does the folder of the socket of one whose path is too long for it', async () => {
  await using there = await uninstallWorld()
  const stateDir = path.join(there.home, 'x'.repeat(100), 'metalbar')
  await mkdir(stateDir, { recursive: true })
  const socket = await there.write(socketPathFor(stateDir, there.at('tmp')))
  expect(path.dirname(socket)).not.toBe(stateDir)
  const removals = await removeTraces(await there.parts({ stateDir }), silently)
  expect(removals.map(({ kind, isGone }) => [kind, isGone])).toEqual([['state', true]])
  expect([await readdir(path.dirname(stateDir)), await readdir(there.at('tmp'))]).toEqual([[], []])
  await mkdir(there.stateDir, { recursive: true })
  const [alone] = await removeTraces(await there.parts(), silently)
  expect([alone?.isGone, await readdir(path.dirname(there.stateDir))]).toEqual([true, []])
})

test('the table has no name twice in another spelling', () => {
  const names = Object.values(stateNames).flat()
  expect(new Set(names.map((name) => name.toLowerCase())).size).toBe(names.length)
})
