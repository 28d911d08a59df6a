import { chown, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { isAway, judgeStoreFolder, placeOf, StoreWatch } from '../../../src/agent-core/models/store/watch.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

let folder: { readonly dir: string } & AsyncDisposable
beforeEach(async () => {
  folder = await temporaryFolder()
})
afterEach(() => folder[Symbol.asyncDispose]())

test('a store that was at home on another volume is away until its volume is back, or models lie in its place', async () => {
  const store = join(folder.dir, 'disk/models')
  const away = async (home: string | undefined) => isAway(store, await placeOf(store), home)
  const here = (await placeOf(store)).mountPoint
  const seen = { never: await away(undefined), atHome: await away(here), elsewhere: await away(folder.dir) }
  await mkdir(join(store, '.metalbar/partials'), { recursive: true })
  const empty = await away(folder.dir)
  await mkdir(join(store, 'tiny'))
  expect({ ...seen, empty, withModels: await away(folder.dir) }).toEqual({
    never: false,
    atHome: false,
    elsewhere: true,
    empty: true,
    withModels: false,
  })
})

test('below /Volumes nothing is made where no volume is', async () => {
  const place = { nearest: '/Volumes', mountPoint: '/' }
  expect([
    await isAway('/Volumes/Models/store', place, undefined),
    await isAway('/Volumes/Models/store', { ...place, nearest: '/Volumes/Models' }, undefined),
  ]).toEqual([true, false])
})

test('a link counts as the place of what it leads to', async () => {
  await mkdir(join(folder.dir, 'big'))
  await symlink(join(folder.dir, 'big'), join(folder.dir, 'store'))
  const { nearest } = await placeOf(join(folder.dir, 'store'))
  await symlink(join(folder.dir, 'nothing'), join(folder.dir, 'broken'))
  expect([nearest, (await placeOf(join(folder.dir, 'broken'))).nearest]).toEqual([
    join(folder.dir, 'store'),
    folder.dir,
  ])
})

test('its home is kept for the next life, for this very folder', async () => {
  const homeFile = join(folder.dir, 'model-store.json')
  const directory = join(folder.dir, 'models')
  await mkdir(directory)
  const look = async () =>
    (await new StoreWatch({ directory, homeFile, log: silentLog, onChange: () => undefined }).look())?.reason
  await look()
  const { mountPoint } = await placeOf(directory)
  const kept: unknown = JSON.parse(await readFile(homeFile, 'utf8'))
  const outcomes: unknown[] = []
  for (const home of [{ directory, mountPoint: '/elsewhere' }, { directory: '/b', mountPoint: '/elsewhere' }, 'x']) {
    await writeFile(homeFile, JSON.stringify(home))
    outcomes.push(await look())
  }
  expect([kept, outcomes]).toEqual([{ directory, mountPoint }, ['StoreGone', undefined, undefined]])
})

test('one look is taken at a time, however often it is asked for, and the next one sees what has changed', async () => {
  const directory = join(folder.dir, 'store')
  const homeFile = join(folder.dir, 'model-store.json')
  await writeFile(homeFile, JSON.stringify({ directory, mountPoint: '/elsewhere' }))
  const said: string[] = []
  const say = (message: string) => void said.push(message)
  const log = { ...silentLog, warn: say, info: say }
  const watch = new StoreWatch({ directory, homeFile, log, onChange: () => undefined })
  const problems = await Promise.all([watch.look(), watch.look(), watch.look()])
  await mkdir(join(directory, 'tiny'), { recursive: true })
  await watch.look()
  expect([problems.map((problem) => problem?.reason), watch.problem, said]).toEqual([
    ['StoreGone', 'StoreGone', 'StoreGone'],
    undefined,
    ['model store cannot be used', 'model store can be used again'],
  ])
})

test.each([
  ['/tmp/models', ['model store may be emptied by a restart']],
  ['/var/lib/models', []],
])('that a store in %s may be emptied by a restart is logged at the start, where it may', (directory, expected) => {
  const said: string[] = []
  const log = { ...silentLog, info: (message: string) => void said.push(message) }
  const watch = new StoreWatch({ directory, homeFile: join(folder.dir, 'home.json'), log, onChange: () => undefined })
  watch.start()
  watch.stop()
  expect(said).toEqual(expected)
})

test('a folder above the store that is another user’s is named, and one of this user or of root is not', async ({
  skip,
}) => {
  const above = join(folder.dir, 'shared')
  const store = join(above, 'models')
  await mkdir(store, { recursive: true })
  expect(await judgeStoreFolder(store)).toEqual({ warnings: [] })
  skip(process.getuid?.() !== 0, 'only root can give a folder to another user')
  await chown(above, 4_711, 4_711)
  expect((await judgeStoreFolder(store)).warnings).toEqual([
    `Others could replace the model store ${store}, since ${above} belongs to user 4711: choose a --model-store in a folder of your own.`,
  ])
})
