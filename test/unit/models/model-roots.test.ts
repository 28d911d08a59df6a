import { chmod, mkdir, readdir, statfs, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { writeMlxModel } from '../../support/mlx-writer.ts'
import { gguf, request, startWorld, staying, type World } from './world.ts'

test('a folder that --allowed-model-roots names and that is not there is told at the start, in the log and as a notice', async () => {
  await using world = await startWorld()
  const home = join(world.folder, 'home')
  await mkdir(join(home, 'models'), { recursive: true })
  const absent = join(world.folder, 'absent')
  const models = world.restarted({ allowedModelRoots: ['~/models', absent, '~/typo'], homeDir: home })
  models.start()
  await eventually(() => models.state().warnings.length > 0)
  const told = (folder: string) =>
    `${folder} of --allowed-model-roots was not found when the agent started, so no Model is served from it until it is there: create the folder, connect its volume or correct the setting.`
  expect([models.state().warnings, world.logged]).toEqual([
    [told(absent), told(join(home, 'typo'))],
    expect.arrayContaining(['folder of --allowed-model-roots not found']),
  ])
})

test('a cache may be written to a folder of its own below a root, and to nothing that holds files or lies elsewhere', async () => {
  await using world = await startWorld()
  const lent = join(world.folder, 'lent')
  await mkdir(join(lent, 'model'), { recursive: true })
  await writeFile(join(lent, 'model', 'model.safetensors'), 'weights')
  await writeFile(join(lent, 'file'), 'of a person')
  await mkdir(join(world.folder, 'private'))
  await symlink(join(world.folder, 'private'), join(lent, 'way-out'))
  const models = world.restarted({ allowedModelRoots: [lent] })
  const allows = async (path: string) => (await models.cacheFolderProblem(path, 'default')) === undefined
  const own = join(lent, 'cache', 'of-omlx')
  expect([await allows(own), await allows(own)]).toEqual([true, true])
  await writeFile(join(own, 'block.safetensors'), 'of oMLX')
  expect(await allows(own)).toBe(true)
  for (const closed of [
    ...[join(lent, 'model'), join(lent, 'file'), join(lent, 'file', 'below'), lent],
    ...[join(lent, 'way-out'), join(lent, 'way-out', 'cache'), join(world.folder, 'private', 'cache'), '/etc'],
  ]) {
    expect([closed, await allows(closed)]).toEqual([closed, false])
  }
  expect([await readdir(join(lent, 'model')), await readdir(join(world.folder, 'private'))]).toEqual([
    ['model.safetensors'],
    [],
  ])
})

describe('a cache in the folder of a model is refused, and that folder is named', () => {
  const problemOf = async (world: World, folder: string) => {
    const problem = await world.models.cacheFolderProblem(folder, 'default')
    return problem?.kind === 'ofModel' ? problem.modelFolder : problem?.kind
  }

  test('of a person, also where a link leads there, and where it is lent itself', async () => {
    await using world = await startWorld()
    const model = join(world.folder, 'lent', 'kiwis')
    await writeMlxModel(model)
    await symlink(model, join(world.folder, 'link'))
    await mkdir(join(world.folder, 'files'))
    await writeFile(join(world.folder, 'files', 'q4.gguf'), gguf('q4'))
    for (const folder of [
      model,
      join(model, 'cache'),
      join(model, 'deep', 'cache'),
      join(world.folder, 'link', 'cache'),
    ])
      expect(await problemOf(world, folder)).toBe(model)
    expect(await problemOf(world, join(world.folder, 'files', 'cache'))).toBe(join(world.folder, 'files'))
    expect((await readdir(model)).includes('cache')).toBe(false)
    const itself = world.restarted({ allowedModelRoots: [model, join(world.folder, 'files')] })
    expect(await itself.cacheFolderProblem(join(model, 'cache'), 'default')).toEqual({
      ...{ kind: 'ofModel', modelFolder: model },
    })
    // There one may keep models as files beside each other, and other folders.
    expect(await itself.cacheFolderProblem(join(world.folder, 'files', 'cache'), 'default')).toBeUndefined()
  })

  test('of the store', async () => {
    await using world = await startWorld()
    const { url } = world.server.serve('/m.gguf', gguf('m'))
    await world.models.ensure(request(url, 'plums'), staying())
    const model = join(world.store, 'plums')
    expect(await problemOf(world, join(model, 'cache'))).toBe(model)
    expect(await problemOf(world, join(world.store, 'cache'))).toBeUndefined()
  })

  test('that was put into a cache later', async () => {
    await using world = await startWorld()
    const cache = join(world.folder, 'cache')
    expect(await problemOf(world, cache)).toBeUndefined()
    await mkdir(join(cache, 'a'))
    await writeFile(join(cache, 'a', 'block.safetensors'), 'of oMLX')
    expect(await problemOf(world, cache)).toBeUndefined()
    const model = join(cache, 'models', 'kiwis')
    await writeMlxModel(model)
    expect(await problemOf(world, cache)).toBe(model)
  })
})

test('a cache may become as large as what its disk has free with what it has already, but for the reserve', async () => {
  await using world = await startWorld({ reserveBytes: 1024 ** 2 })
  const cache = join(world.folder, 'cache')
  const { bavail, bsize } = await statfs(world.folder)
  const near = (bytes: number) => Math.abs(bytes - bavail * bsize) < 1024 ** 3
  expect(near(await world.models.cacheRoomBytes(cache))).toBe(true)
  // As long as it says, without a byte on the disk.
  await mkdir(join(cache, 'a'), { recursive: true })
  await writeFile(join(cache, 'a', 'block.safetensors'), '')
  await truncate(join(cache, 'a', 'block.safetensors'), 64 * 1024 ** 3)
  expect(near((await world.models.cacheRoomBytes(cache)) - 64 * 1024 ** 3)).toBe(true)
  const none = world.restarted({ reserveBytes: 2 ** 52 })
  expect(await none.cacheRoomBytes(cache)).toBe(0)
})

test.skipIf(process.getuid?.() === 0)('what may not be read of a cache counts as nothing', async () => {
  await using world = await startWorld({ reserveBytes: 1 })
  const cache = join(world.folder, 'cache')
  await mkdir(join(cache, 'closed'), { recursive: true })
  await chmod(join(cache, 'closed'), 0)
  await using _ = { [Symbol.asyncDispose]: () => chmod(join(cache, 'closed'), 0o700) }
  expect(await world.models.cacheRoomBytes(cache)).toBeGreaterThan(0)
})
