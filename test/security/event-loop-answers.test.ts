// What servers, files and an API server answer, as `event-loop.test.ts` does for objects.
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { listBounds } from '../../src/agent-core/kube/kube-api.ts'
import { eventually } from '../support/eventually.ts'
import { maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'

/** As many as a listing may have. */
const listing = Array.from({ length: 20_000 }, (_, at) => `M-${at}.gguf`)
/** The longest way through the listing: the last ones, and one that it does not have. */
const names = [...listing.slice(-999), 'missing.gguf']
const shards = Array.from({ length: 1_000 }, (_, at) => `M-${String(at + 1).padStart(5, '0')}-of-01000.gguf`)
/** Every element of such a path, and every piece of its name, may be that of a quantization. */
const deep = Array.from({ length: 4_000 }, (_, at) => `${'q/'.repeat(200)}${'q4_'.repeat(20)}${at}.gguf`)

test('Models with a thousand names each against listings of 20,000 files never hold the event loop, nor take all open files', async () => {
  await using folder = await temporaryFolder()
  await using sim = await KubeSim.start()
  await using hub = await startFakeHub()
  const begin = Buffer.from('GGUF\u0003\0\0\0')
  const repository = (files: readonly string[]) => Object.fromEntries(files.map((name) => [name, begin]))
  await hub.addRepo('org/many', repository(listing))
  await hub.addRepo('org/deep', repository(deep))
  const local = path.join(folder.dir, 'many')
  await mkdir(local)
  for (const name of listing.slice(-6_000)) await writeFile(path.join(local, name), begin)
  await using watched = await watchedAgent({
    folder: folder.dir,
    kubeconfig: sim.kubeconfig(),
    args: ['--llama-server', sampleServerPath, '--hub-endpoint', hub.endpoint],
    // Fewer open files than the folder has, as a service of macOS may have 256 or 2,560.
    startedBy: ['/bin/sh', '-c', 'ulimit -n 1024; exec "$@"', 'sh'],
  })
  const asked = [
    ...[{ files: names }, { files: shards }, { quantization: 'Q9' }].map((choice) => ({
      source: 'hf://org/many',
      ...choice,
    })),
    ...[{ quantization: 'Q9' }, {}].map((choice) => ({ source: 'hf://org/deep', ...choice })),
    { source: local, files: names },
  ]
  for (const [at, spec] of asked.entries()) {
    sim.create({
      ...{ apiVersion, kind: 'Model', metadata: { name: `m-${at}` } },
      spec: { ...spec, format: 'gguf', hardware: { accelerator: 'metal' } },
    })
    sim.create({ apiVersion, kind: 'InferenceService', metadata: { name: `m-${at}` }, spec: { modelRef: `m-${at}` } })
  }
  const messages = await eventually(
    async () => {
      const { services } = await watched.agent.snapshot()
      const known = services.filter(({ reason }) => outcomes.has(reason)).map(({ message }) => message)
      return known.length === asked.length && known
    },
    { timeoutMs: 150_000, what: 'an outcome of every service' },
  )
  for (const message of messages) {
    expect(message).toMatch(
      / has (?:no file "|no GGUF file of quantization Q9|several models: |more than 20000 files or )/,
    )
  }
  expect(await watched.health.longest()).toBeLessThan(maxHeld)
}, 300_000)

const outcomes: ReadonlySet<string> = new Set(['FetchFailed', 'Refused'])

test('an API server whose refusals are 16 KB of parameters that may be secret never holds the event loop', async () => {
  await using sim = await KubeSim.start()
  await using watched = await watchedAgent({
    kubeconfig: sim.kubeconfig(),
    args: ['--llama-server', sampleServerPath],
  })
  const fault = { kind: 'status', code: 403, reason: 'Forbidden', message: '?token'.repeat(2_700) } as const
  sim.faults.add({ on: { resource: 'models' }, times: Infinity, fault })
  sim.breakWatches('gone')
  const { cluster } = await watched.agent.shows(
    (snapshot) => !['live', 'connecting', 'stale'].includes(snapshot.cluster.state) && snapshot,
    'a cluster that refuses',
  )
  expect(cluster.state).toBe('denied')
  expect(await watched.health.longest()).toBeLessThan(maxHeld)
})

test('lists without an end never hold the event loop, and are given up with a sentence', async () => {
  await using sim = await KubeSim.start()
  for (let at = 0; at < 300; at += 1) {
    sim.create({ apiVersion, kind: 'Model', metadata: { name: `m-${at}` }, spec: { source: 'hf://org/model' } })
  }
  await using watched = await watchedAgent({ kubeconfig: sim.kubeconfig(), args: ['--llama-server', sampleServerPath] })
  sim.faults.add({ on: { verb: 'list', resource: 'models' }, times: Infinity, fault: { kind: 'endless-list' } })
  sim.breakWatches('gone', { resource: 'models' })
  await watched.agent.shows(
    ({ cluster }) => cluster.message.includes(`the list has more than ${listBounds.objects} objects, or no end`),
    'a list that is given up',
  )
  expect(await watched.health.longest()).toBeLessThan(maxHeld)
})
