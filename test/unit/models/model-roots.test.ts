import { mkdir } from 'node:fs/promises'
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
