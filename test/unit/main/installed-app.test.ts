import { lstat, mkdir, readlink, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { CommandLink } from '../../../src/main/system/command-link.ts'
import { misplacedAs, type Place } from '../../../src/main/system/placement.ts'
import { lookRegularly, takeHandOver, writeHandOver } from '../../../src/main/updates/updates.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

vi.mock('electron', () => import('../../support/electron-stand-in/electron.ts'))

const homeDir = '/Users/me'

test.for<[bundle: string, changes: Partial<Place>, misplaced: ReturnType<typeof misplacedAs>]>([
  ['/Applications/Metalbar.app', { isInApplications: true }, undefined],
  ['/private/var/folders/x/AppTranslocation/1/d/Metalbar.app', { isReadOnly: true }, 'translocated'],
  ['/Volumes/Metalbar 1.2.3/Metalbar.app', { isReadOnly: true }, 'diskImage'],
  ['/Volumes/Work/Metalbar.app', {}, undefined],
  ['/Users/me/Downloads/Metalbar.app', {}, 'downloads'],
  ['/Users/me/Downloads-kept/Metalbar.app', {}, undefined],
  ['/Users/me/Tools/Metalbar.app', {}, undefined],
])('an app at %s with %o is misplaced as %s', ([bundle, changes, misplaced]) => {
  const place = { bundle, homeDir, isInApplications: false, isReadOnly: false, ...changes }
  expect(misplacedAs(place)).toBe(misplaced)
})

describe('the link to the command', () => {
  const world = async (stack: AsyncDisposableStack) => {
    const { dir } = stack.use(await temporaryFolder())
    const command = path.join(dir, 'Applications/Metalbar.app/Contents/Resources/bin/metal-agent')
    await mkdir(path.dirname(command), { recursive: true })
    await writeFile(command, '')
    const own = path.join(dir, '.local/bin')
    const file = path.join(own, 'metal-agent')
    const link = new CommandLink({ command, homeDir: dir, pathVariable: () => Promise.resolve(`${own}:relative`) })
    return { dir, command, own, file, link }
  }

  test('is made in a folder of the PATH, found again, and taken away', async () => {
    await using stack = new AsyncDisposableStack()
    const { link, file, command } = await world(stack)
    const before = await link.state()
    const made = await link.link()
    const linked = [await readlink(file), await link.state()]
    await link.unlink()
    expect([before, made, linked, await link.state()]).toEqual([
      { state: 'absent' },
      file,
      [command, { state: 'linked', file }],
      { state: 'absent' },
    ])
  })

  test('that leads to where an app was before is repaired', async () => {
    await using stack = new AsyncDisposableStack()
    const { link, own, file, command } = await world(stack)
    await mkdir(own, { recursive: true })
    const target = '/Volumes/Metalbar/Metalbar.app/Contents/Resources/bin/metal-agent'
    await symlink(target, file)
    const before = await link.state()
    await link.link()
    expect([before, await readlink(file)]).toEqual([{ state: 'outdated', file, target }, command])
  })

  test.for(['a file', 'a link to elsewhere'])('%s of that name is named and left alone', async (what) => {
    await using stack = new AsyncDisposableStack()
    const { link, own, file } = await world(stack)
    await mkdir(own, { recursive: true })
    if (what === 'a file') await writeFile(file, 'mine')
    else await symlink('/opt/homebrew/Cellar/metal-agent/1/bin/metal-agent', file)
    const before = await lstat(file)
    await expect(link.link()).rejects.toThrow(file)
    await link.unlink()
    expect([await link.state(), (await lstat(file)).ino]).toEqual([{ state: 'foreign', file }, before.ino])
  })

  test('where no folder of the PATH may be written is a line for a terminal', async () => {
    await using stack = new AsyncDisposableStack()
    const { dir, command } = await world(stack)
    const link = new CommandLink({ command, homeDir: dir, pathVariable: () => Promise.resolve('/nowhere/bin') })
    await expect(link.link()).rejects.toThrow(`sudo ln -s ${command} /usr/local/bin/metal-agent`)
  })
})

describe('the marker of an update', () => {
  const handOver = { from: '1.2.2', to: '1.2.3', atMs: 1_000_000 }

  test.for([
    ['of a moment ago', handOver, 1_000_500, { wanted: '1.2.3', runs: '1.2.2' }],
    ['older than five minutes', handOver, 1_300_001, undefined],
    ['of the future', handOver, 600_000, undefined],
  ] as const)('%s counts accordingly, and once', async ([, written, nowMs, expected]) => {
    await using folder = await temporaryFolder()
    await writeHandOver(folder.dir, written)
    const first = await takeHandOver(folder.dir, '1.2.2', nowMs)
    expect([first, await takeHandOver(folder.dir, '1.2.2', nowMs)]).toEqual([expected, undefined])
  })

  test.for(['', '{"from":"1', '[]', '{"from":1,"to":"1.2.3","atMs":1000000}'])(
    'that reads %j is none',
    async (text) => {
      await using folder = await temporaryFolder()
      await writeFile(path.join(folder.dir, 'update.json'), text)
      expect(await takeHandOver(folder.dir, '1.2.2', 1_000_000)).toBeUndefined()
    },
  )
})

test('updates are looked for a minute after the start and once a day, at once when a person begins to want it, and not while nobody does', () => {
  vi.useFakeTimers()
  try {
    let isWanted = true
    let looks = 0
    const changed = lookRegularly(
      () => isWanted,
      () => (looks += 1),
    )
    const counts: number[] = []
    const after = (ms: number) => {
      vi.advanceTimersByTime(ms)
      counts.push(looks)
    }
    changed()
    after(59_000)
    after(2_000)
    after(86_400_000)
    isWanted = false
    changed()
    after(200_000_000)
    isWanted = true
    changed()
    after(1)
    expect(counts).toEqual([0, 1, 2, 2, 3])
  } finally {
    vi.useRealTimers()
  }
})
