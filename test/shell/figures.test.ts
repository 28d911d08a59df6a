import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { lookEveryMs, loopRecorder, loopRecordsVariable, longTurns } from '../support/event-loop/loop-records.ts'
import { startFileServer } from '../support/file-server.ts'
import { servingWorld } from '../support/serving-world.ts'
import { ShellApp } from '../support/shell-app.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** In processor time, which a machine that does something else besides does not lengthen. */
const startLimitMs = 1_000
/** A click that waits longer is felt. */
const turnLimitMs = 50
const longTurnsPerHundred = 1

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const services = 30
const mebibyte = 1_048_576
const download = { bytes: 96 * mebibyte, bytesPerSecond: 16 * mebibyte }
const watchedMs = 4_000

test(`the icon is there after ${startLimitMs} ms of work`, async () => {
  await using app = await ShellApp.start({ preferences: {} })
  const icon = await eventually(async () => (await app.look()).icon)
  expect(icon.cpuMs).toBeLessThan(startLimitMs)
})

test(`99 of 100 turns of the app take less than ${turnLimitMs} ms while a model downloads and ${services} services change`, async () => {
  await using world = await servingWorld()
  await using files = await startFileServer()
  await using folder = await temporaryFolder()
  const records = path.join(folder.dir, 'loop-records')
  await writeFile(records, '')
  const weights = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(download.bytes, 7)])
  const { url } = files.serve('/large.gguf', weights, { throttle: download.bytesPerSecond })
  const { sim } = world
  const model = { format: 'gguf', hardware: { accelerator: 'metal' } }
  sim.create({ apiVersion, kind: 'Model', metadata: { name: 'large' }, spec: { ...model, source: url } })
  sim.create({ apiVersion, kind: 'InferenceService', metadata: { name: 'large' }, spec: { modelRef: 'large' } })
  const names = Array.from({ length: services }, (_, at) => `service-${at}`)
  for (const name of names) {
    sim.create({ apiVersion, kind: 'InferenceService', metadata: { name }, spec: { modelRef: 'large', suspend: true } })
  }
  await using app = await ShellApp.start({
    kubeconfig: sim.kubeconfig(),
    preferences: world.preferences,
    env: { NODE_OPTIONS: loopRecorder, [loopRecordsVariable]: records },
  })
  await app.icon('loading')
  await eventually(async () => (await app.menu()).length > 0)
  const began = Date.now()
  for (let round = 0; Date.now() - began < watchedMs; round += 1) {
    for (const name of names) {
      sim.patch({ resource: 'inferenceservices', name }, { spec: { extraArgs: ['--threads', `${1 + (round % 8)}`] } })
    }
    await app.menu()
    await delay(200)
  }
  const { state } = await app.service('large')
  const long = await longTurns(records, began)
  const turns = (Date.now() - began) / lookEveryMs
  expect(state).toBe('fetching')
  expect((100 * long.length) / turns, `long turns of ${JSON.stringify(long)} ms`).toBeLessThanOrEqual(
    longTurnsPerHundred,
  )
})
