import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { lookEveryMs, loopRecorder, loopRecordsVariable, longTurns, noteworthyMs } from './event-loop/loop-records.ts'
import { eventually } from './eventually.ts'
import { startFileServer } from './file-server.ts'
import { servingWorld } from './serving-world.ts'
import { ShellApp } from './shell-app.ts'
import { temporaryFolder } from './temporary-folder.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const mebibyte = 1_048_576
const download = { bytes: 96 * mebibyte, bytesPerSecond: 16 * mebibyte }
const watchedMs = 4_000
const roundMs = 200

export const busyServices = 30

/** Processor time until the icon is there, which a machine that does something else besides does not lengthen. */
export async function iconAfterCpuMs(): Promise<number> {
  await using app = await ShellApp.start({ preferences: {} })
  return (await eventually(async () => (await app.look()).icon)).cpuMs
}

export interface BusyTurns {
  /** In processor time: 99 of 100 turns of the app's event loop take less. */
  readonly p99Ms: number
  readonly longest: readonly number[]
  /** Of the model that is downloaded, at the end. */
  readonly state: string
}

/** While a model downloads, {@link busyServices} services change again and again and the menu is opened. */
export async function busyTurns(): Promise<BusyTurns> {
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
  const names = Array.from({ length: busyServices }, (_, at) => `service-${at}`)
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
    await delay(roundMs)
  }
  const { state } = await app.service('large')
  const longest = (await longTurns(records, began)).toSorted((a, b) => b - a)
  const turns = (Date.now() - began) / lookEveryMs
  return { p99Ms: longest[Math.floor(turns / 100)] ?? noteworthyMs, longest: longest.slice(0, 10), state }
}
