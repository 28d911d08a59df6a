import { chmod, mkdir, readdir, readFile, rm, stat, statfs, symlink, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import {
  dropOriginals,
  lookAtStore,
  moveBack,
  moveStore,
  type StorePlan,
} from '../../../../src/installation/migration/store.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const moving = { tell: () => undefined, signal: new AbortController().signal, note: () => Promise.resolve() }

/** Moves it; answers the files that were noted. */
async function moved(plan: StorePlan, tell: (sentence: string) => void = moving.tell): Promise<string[]> {
  const files: string[] = []
  await moveStore(plan, { ...moving, tell, note: (file) => Promise.resolve(void files.push(file)) })
  return files
}

/** Below /tmp, as the Go agent's store is; `kept` lies in a folder that no reboot empties. */
async function stores() {
  const folder = await temporaryFolder()
  const put = async (file: string, text = 'GGUF') => {
    await mkdir(dirname(join(folder.dir, file)), { recursive: true })
    await writeFile(join(folder.dir, file), text)
  }
  const at = (...parts: string[]) => join(folder.dir, ...parts)
  return { at, put, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

const inode = async (file: string) => (await stat(file)).ino

test('files of models get a second name, and what is no model stays where it is', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('go/phi/phi.gguf', 'GGUF phi')
  await put('go/phi/next.gguf.partial')
  await put('go/mlx-server-default-phi.log')
  await put('go/phi/empty.gguf', '')
  await put('go/phi/two\nlines.gguf')
  await symlink('/etc/hosts', at('go/phi/link.gguf'))
  const plan = await lookAtStore(at('go'), at('own'))
  expect(plan).toEqual({
    ...{ how: 'link', from: at('go'), to: at('own'), bytes: 8, files: [{ path: 'phi/phi.gguf', bytes: 8 }] },
    problems: [],
    notes: [expect.stringContaining('link.gguf is a link and is left where it is')],
  })
  expect([await moved(plan), await inode(at('own/phi/phi.gguf'))]).toEqual([
    ['phi/phi.gguf'],
    await inode(at('go/phi/phi.gguf')),
  ])
  expect(await moved(plan)).toEqual([])
})

test('models that get a second name need no room, and those that have to be copied need all of theirs', async ({
  skip,
}) => {
  await using folder = await stores()
  const { at, put } = folder
  await put('go/phi/phi.gguf')
  const elsewhere = '/dev/shm'
  const another = await statfs(elsewhere).catch(() => undefined)
  const { bavail, bsize } = await statfs(at())
  const free = Math.max(bavail * bsize, (another?.bavail ?? 0) * (another?.bsize ?? 0))
  await truncate(at('go/phi/phi.gguf'), free + 1_000_000_000)
  expect(await lookAtStore(at('go'), at('own'))).toMatchObject({ how: 'link', problems: [] })
  const isAnother = another !== undefined && (await stat(elsewhere)).dev !== (await stat(at())).dev
  skip(!isAnother, `${elsewhere} is no volume of its own`)
  const copied = await lookAtStore(at('go'), join(elsewhere, 'metalbar-nowhere'))
  expect(copied).toMatchObject({ how: 'copy', problems: [expect.stringContaining('There is not enough room')] })
  await truncate(at('go/phi/phi.gguf'), 4)
  expect(await lookAtStore(at('go'), join(elsewhere, 'metalbar-nowhere'))).toMatchObject({ how: 'copy', problems: [] })
})

test('what is moved is taken back, also where a reboot has emptied the store, and a model of our own stays', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('go/phi/phi.gguf')
  await put('own/other/other.gguf')
  const plan = await lookAtStore(at('go'), at('own'))
  const files = await moved(plan)
  await rm(at('go'), { recursive: true })
  await moveBack({ from: at('go'), to: at('own'), files })
  expect([await readFile(at('go/phi/phi.gguf'), 'utf8'), await readdir(at('own'))]).toEqual(['GGUF', ['other']])
})

test('what is confirmed loses its first name, but not where the second is gone', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('go/a/a.gguf')
  await put('go/b/b.gguf')
  const plan = await lookAtStore(at('go'), at('own'))
  const files = await moved(plan)
  await rm(at('own/b/b.gguf'))
  expect(await dropOriginals({ from: at('go'), to: at('own'), files })).toBe(1)
  expect([await readdir(at('go')), await readdir(at('own/a'))]).toEqual([['b'], ['a.gguf']])
})

test('another file of the same name in our store is neither replaced nor removed', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('go/phi/phi.gguf', 'GGUF theirs')
  await put('own/phi/phi.gguf', 'GGUF ours, longer')
  const said: string[] = []
  const plan = await lookAtStore(at('go'), at('own'))
  expect(await moved(plan, (sentence) => void said.push(sentence))).toEqual([])
  expect([await readFile(at('own/phi/phi.gguf'), 'utf8'), said]).toEqual([
    'GGUF ours, longer',
    [expect.stringContaining('stays as it is')],
  ])
})

test('files that have to be copied are copied whole, and taken back', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('go/phi/phi.gguf', 'GGUF copied')
  const plan: StorePlan = {
    how: 'copy',
    from: at('go'),
    to: at('own'),
    bytes: 11,
    files: [{ path: 'phi/phi.gguf', bytes: 11 }],
    problems: [],
    notes: [],
  }
  const files = await moved(plan)
  expect([files, await readdir(at('own/phi'))]).toEqual([['phi/phi.gguf'], ['phi.gguf']])
  expect(await inode(at('own/phi/phi.gguf'))).not.toBe(await inode(at('go/phi/phi.gguf')))
  await moveBack({ from: at('go'), to: at('own'), files })
  expect([await readdir(at('go/phi')), await stat(at('own')).then(({ size }) => size > 0)]).toEqual([
    ['phi.gguf'],
    true,
  ])
})

test('a store that is a link is told with where it leads, and a broken link stops the move', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('volume/phi/phi.gguf')
  await symlink(at('volume'), at('go'))
  expect(await lookAtStore(at('go'), at('own'))).toMatchObject({
    how: 'link',
    from: at('volume'),
    notes: [expect.stringContaining(`is a link to ${at('volume')}`)],
  })
  await rm(at('volume'), { recursive: true })
  expect((await lookAtStore(at('go'), at('own'))).problems).toEqual([
    expect.stringContaining('is a symbolic link to something that is not there'),
  ])
})

test('no store is nothing to move, and a file is no store', async () => {
  await using folder = await stores()
  const { at, put } = folder
  expect(await lookAtStore(at('go'), at('own'))).toMatchObject({
    how: 'none',
    problems: [],
    notes: [expect.stringContaining('models are fetched again')],
  })
  await put('file')
  expect((await lookAtStore(at('file'), at('own'))).problems).toEqual([expect.stringContaining('is not a folder')])
})

test('a store that is ours already is used in place', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('own/phi/phi.gguf')
  await chmod(at('own'), 0o700)
  expect(await lookAtStore(at('own'), at('own'))).toMatchObject({ how: 'inPlace', bytes: 4, problems: [] })
})

test('a store that a person chose gets the models wherever they were', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('go/phi/phi.gguf')
  expect(await lookAtStore(at('go'), at('chosen'), true)).toMatchObject({ how: 'link', to: at('chosen') })
})

test('each file is noted before it has its name here, and what a killed copy left is taken back with it', async () => {
  await using folder = await stores()
  const { at, put } = folder
  await put('go/phi/phi.gguf')
  const noted: string[] = []
  const note = async (file: string) => {
    expect(await readdir(at('own')).catch(() => [])).toEqual([])
    noted.push(file)
    throw new Error('killed')
  }
  const plan = await lookAtStore(at('go'), at('own'))
  await expect(moveStore(plan, { ...moving, note })).rejects.toThrow('killed')
  expect(noted).toEqual(['phi/phi.gguf'])
  await put('own/phi/phi.gguf.partial')
  await moveBack({ from: at('go'), to: at('own'), files: noted })
  expect([await readdir(at('own')), await readdir(at('go/phi'))]).toEqual([[], ['phi.gguf']])
})
