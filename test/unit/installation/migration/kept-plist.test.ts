import { readlinkSync } from 'node:fs'
import { mkdir, open, readFile, rm, stat, writeFile, type FileHandle } from 'node:fs/promises'
import path from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { keepPlist, restorePlist } from '../../../../src/installation/migration/take-over.ts'
import { MigrationRecord } from '../../../../src/installation/migration/record.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

afterEach(() => vi.restoreAllMocks())

/** Names of what is brought to the disk from now on, below that folder. */
async function synced(below: string): Promise<string[]> {
  const names: string[] = []
  await using any = await open(below)
  const handles = Object.getPrototypeOf(any) as FileHandle
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called on the handle below
  const { sync } = handles
  vi.spyOn(handles, 'sync').mockImplementation(function (this: FileHandle) {
    names.push(path.relative(below, readlinkSync(`/proc/self/fd/${this.fd}`)) || '.')
    return sync.call(this)
  })
  return names
}

test.runIf(process.platform === 'linux')(
  "the Go agent's plist and the record of the move are on the disk before the plist can be taken out, and it is there again when it is put back",
  async () => {
    await using folder = await temporaryFolder()
    const stateDir = path.join(folder.dir, 'state')
    const file = path.join(folder.dir, 'LaunchAgents/com.llmkube.metal-agent.plist')
    for (const one of [stateDir, path.dirname(file)]) await mkdir(one)
    await writeFile(file, 'theirs', { mode: 0o640 })
    const names = await synced(folder.dir)
    const record = await MigrationRecord.open(stateDir)
    const kept = await keepPlist(stateDir, { file })
    expect(names.splice(0)).toEqual(['state/migration/com.llmkube.metal-agent.plist.new', 'state/migration', 'state'])
    const store = { from: '/a', to: '/b', moved: [] }
    const startedAt = '2026-11-23T13:00:00.000Z'
    await record.begin({ phase: 'begun', startedAt, store, isInstalled: false, transferred: [] })
    expect(names.splice(0)).toEqual(['state/migration'])
    await rm(file)
    await restorePlist({ file, kept })
    expect(names).toEqual(['LaunchAgents/com.llmkube.metal-agent.plist.new', 'LaunchAgents'])
    expect([await readFile(file, 'utf8'), (await stat(file)).mode & 0o777]).toEqual(['theirs', 0o640])
  },
)
