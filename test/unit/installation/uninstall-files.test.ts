import { glob, mkdir, readdir, readFile, symlink } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { traceKinds, type TraceKind } from '../../../src/contract/uninstall.ts'
import { kindInStateFolder } from '../../../src/installation/uninstall/file-parts.ts'
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

test('a log that was sent elsewhere goes with its earlier files and its lock, and nothing beside it', async () => {
  await using there = await uninstallWorld()
  const log = await there.write(there.at('var/agent.log'))
  for (const name of ['agent.log.1', 'agent.log.lock', 'agent.log.mine', 'agent.log2']) {
    await there.write(there.at('var', name))
  }
  await removeTraces(await there.parts({ stated: { logFile: log } }), silently)
  expect(await readdir(there.at('var'))).toEqual(['agent.log.mine', 'agent.log2'])
})
