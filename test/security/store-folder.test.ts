import { chmod, chown, mkdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { judgeStoreFolder } from '../../src/agent-core/models/store/watch.ts'
import { skipWhen } from '../support/skip.ts'
import { failure, gguf, request, startWorld, staying, type World } from '../unit/models/world.ts'

let world: World
beforeEach(async () => {
  world = await startWorld()
})
afterEach(async () => world[Symbol.asyncDispose]())

const modeOf = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8)

test('a new store, and all that is made in it, is for this user alone', async () => {
  const { url } = world.server.serve('/m.gguf', gguf('A'))
  const { path } = await world.models.ensure(request(url), staying())
  const folders = [world.store, dirname(path), join(world.store, '.metalbar', 'partials')]
  expect(await Promise.all(folders.map(modeOf))).toEqual(['700', '700', '700'])
})

test('a store of ours that others could write to is mended and told once, and a folder above it that they can write to is told', async () => {
  await mkdir(world.store)
  await chmod(world.store, 0o777)
  await chmod(world.folder, 0o777)
  const { url } = world.server.serve('/m.gguf', gguf('A'))
  const { problem, warnings } = await judgeStoreFolder(world.store)
  expect([problem, await modeOf(world.store)]).toEqual([undefined, '755'])
  expect(warnings).toEqual(
    expect.arrayContaining([
      expect.stringContaining(`${world.store} (mode 0777); the agent has restricted it to this user`),
      expect.stringContaining(`${world.folder} may be written by them`),
    ]),
  )
  expect(await world.models.ensure(request(url), staying())).toMatchObject({ sizeBytes: 4096 })
})

test("a store of root's is used as it is, since root is trusted anyway", async () => {
  expect(await judgeStoreFolder('/usr', { uid: 12345, username: 'somebody' })).toEqual({ warnings: [] })
})

describe('as root', () => {
  skipWhen(process.getuid?.() === 0 ? undefined : 'only root can give a folder to somebody else')

  test("a store of somebody else's is neither served from nor written to, and the sentence says whose it is and what to do", async () => {
    const { url } = world.server.serve('/m.gguf', gguf('A'))
    await world.models.ensure(request(url), staying())
    await chown(world.store, 12345, 12345)
    expect(await failure(world.restarted().ensure(request(url), staying()))).toMatchObject({
      reason: 'StoreNotOurs',
      message: expect.stringMatching(/belongs to user 12345 \(mode 0700\).*sudo chown -R .*--model-store/) as string,
    })
    await chown(world.store, 0, 0)
  })
})
