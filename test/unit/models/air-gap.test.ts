import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createNetworkNamespace } from '../../support/network-namespace.ts'
import { missingNetworkNamespaces, skipWhen } from '../../support/skip.ts'
import { startFakeHub } from '../../support/fake-hub.ts'
import { gguf, request, startWorld, staying, type World } from './world.ts'

skipWhen(missingNetworkNamespaces())

let world: World
beforeEach(async () => {
  world = await startWorld()
})
afterEach(async () => world[Symbol.asyncDispose]())

const run = promisify(execFile)
const script = resolve(import.meta.dirname, 'ensure-once.ts')

test('where there is no network a store that was filled before is used, without one connection', async () => {
  await using hub = await startFakeHub()
  await hub.addRepo('org/tiny', { 'h.gguf': gguf('H') })
  const filler = world.restarted({ env: { HF_ENDPOINT: hub.endpoint } })
  const { path } = await filler.ensure(request('hf://org/tiny'), staying())
  await filler.stop()
  await mkdir(join(world.store, 'tiny'), { recursive: true })
  await writeFile(join(world.store, 'tiny/x.gguf'), gguf('X'))
  await using elsewhere = await createNetworkNamespace()
  const sources = ['https://nowhere.invalid/x.gguf', 'hf://org/tiny']
  const [command, ...args] = elsewhere.enter([process.execPath, script, world.store, ...sources])
  const { stdout } = await run(command, args)
  expect(JSON.parse(stdout)).toEqual({
    paths: [join(world.store, 'tiny/x.gguf'), path],
    connections: 0,
  })
})
