import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { startWorld } from './world.ts'

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
  const allows = (path: string) => models.allowsCacheFolder(path, 'default')
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
