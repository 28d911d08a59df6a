import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { AgentProcess } from '../support/agent-process.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { HealthWatch, maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { hostileModels, hostileWholeSpecs } from '../support/hostile-specs.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { tinyModel } from '../support/tiny-model.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const fuzzed = 4
/** Of a machine that does much else besides. */
const patienceMs = 150_000

/** As large as etcd takes an object. */
const largest = 1_400_000
const filled = (item: (at: number) => unknown, length: number): unknown[] =>
  Array.from({ length: largest / length }, (_, at) => item(at))
const differentObjects = filled((at) => ({ [(46_656 + at).toString(36)]: 1 }), 11)
const longTexts = (text: string): string[] => Array.from({ length: 256 }, () => text)
const ourKeys = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`metalbar.dev/${at}`, 'x'.repeat(60)]))

interface Hostile {
  readonly metadata?: object
  readonly spec: object
}

/** Each as large as an object can be, each with slow content in a different place. */
const models: Readonly<Record<string, Hostile>> = { source: { spec: { source: 'x'.repeat(largest) } } }
const services: Readonly<Record<string, Hostile>> = {
  shapes: { spec: { unknown: differentObjects } },
  'shapes-in-place': { spec: { endpoint: { unknown: differentObjects } } },
  objects: { spec: { endpoint: { unknown: filled(() => ({}), 3) } } },
  template: { spec: { extraArgs: ['--chat-template', '{% for a in b %}'.repeat(largest / 16)] } },
  arguments: { spec: { extraArgs: filled((at) => `--arg-${1_000 + at}`, 13) } },
  'odd-arguments': { spec: { extraArgs: longTexts('_'.repeat(5_000)) } },
  variables: { spec: { env: filled((at) => ({ name: 'A', valueFrom: { [`a${1_000 + at}`]: {} } }), 38) } },
  patterns: { spec: { tensorOverrides: longTexts(`${'(a*)*'.repeat(200)}=CPU`) } },
  keys: { metadata: { annotations: ourKeys, labels: ourKeys }, spec: {} },
}

test(
  `objects as large as can be and ${fuzzed} random ones never hold the event loop, in a watch or in a list`,
  async () => {
    await using folder = await temporaryFolder()
    await using sim = await KubeSim.start()
    const store = await tinyModel(sim, folder.dir, {
      metadata: { 'tokenizer.chat_template': '{% for a in b %}'.repeat(4_000) },
    })
    // The side file that the random specs name.
    await writeFile(path.join(store, 'a.gguf'), '\uFEFF'.repeat(200))
    await using watched = await watchedAgent({
      folder: folder.dir,
      kubeconfig: sim.kubeconfig(),
      // Every spec is judged, and no server starts.
      args: ['--llama-server', sampleServerPath, '--memory-budget', '1Mi'],
    })
    const { agent, health } = watched
    for (const [name, { spec }] of Object.entries(models)) {
      sim.create({ apiVersion, kind: 'Model', metadata: { name }, spec })
    }
    const serve = (name: string, { metadata, spec }: Hostile): void =>
      void sim.create({
        ...{ apiVersion, kind: 'InferenceService' },
        metadata: { name, ...metadata },
        spec: { modelRef: 'tiny', ...spec },
      })
    for (const [name, hostile] of Object.entries(services)) {
      serve(name, hostile)
    }
    const specs = fc.sample(hostileWholeSpecs(store), { numRuns: fuzzed, seed: 13 })
    for (const [at, spec] of specs.entries()) serve(`random-${at}`, { spec })
    for (const [at, spec] of fc.sample(hostileModels(store), { numRuns: fuzzed, seed: 13 }).entries()) {
      sim.create({ apiVersion, kind: 'Model', metadata: { name: `random-${at}` }, spec })
      sim.create({
        ...{ apiVersion, kind: 'InferenceService', metadata: { name: `of-random-${at}` } },
        spec: { modelRef: `random-${at}` },
      })
    }
    const names = [...Object.keys(services), ...specs.flatMap((_, at) => [`random-${at}`, `of-random-${at}`])]
    await allSettled(agent, names)
    sim.breakWatches('gone')
    serve('last', { spec: {} })
    await allSettled(agent, [...names, 'last'])
    expect(await health.longest()).toBeLessThan(maxHeld)
  },
  2 * patienceMs + 60_000,
)

test('a file of byte-order marks that a changed spec names beside the model never holds the event loop, and what serves goes on', async () => {
  await using folder = await temporaryFolder()
  await using sim = await KubeSim.start()
  const marks = path.join(await tinyModel(sim, folder.dir), 'marks.gguf')
  await writeFile(marks, '\uFEFF'.repeat(30))
  sim.create({ apiVersion, kind: 'InferenceService', metadata: { name: 'served' }, spec: { modelRef: 'tiny' } })
  await using watched = await watchedAgent({
    folder: folder.dir,
    kubeconfig: sim.kubeconfig(),
    args: ['--llama-server', sampleServerPath],
    isUp: (agent) => agent.service('served', 'ready'),
  })
  const { agent, health } = watched
  sim.patch({ resource: 'inferenceservices', name: 'served' }, { spec: { extraArgs: ['--model-draft', marks] } })
  const { message } = await agent.shows(
    ({ services }) => services.find((one) => one.message.includes('--model-draft')),
    'what is wrong with the change',
  )
  expect(message).toContain('--model-draft is refused')
  await agent.service('served', 'ready')
  expect(await health.longest()).toBeLessThan(maxHeld)
})

/** Waits until of each service it is known why it does not serve. */
async function allSettled(agent: AgentProcess, names: readonly string[]): Promise<void> {
  const isKnown = async (): Promise<boolean> => {
    const { services } = await agent.snapshot()
    const reasonOf = new Map(services.map(({ name, reason }) => [name, reason]))
    const open = names.filter((name) => !reasons.has(reasonOf.get(name) ?? ''))
    if (open.length === 0) return true
    throw new Error(`Not known: ${open.map((name) => `${name} ${reasonOf.get(name) ?? 'absent'}`).join(', ')}`)
  }
  await eventually(isKnown, { timeoutMs: patienceMs, what: 'an outcome of every service' })
}

const reasons: ReadonlySet<string> = new Set([
  ...[
    'ModelMissing',
    'FetchFailed',
    'Refused',
    'ExtraArgsRejected',
    'EnvironmentRejected',
    'InsufficientMemory',
    'MemoryCheckFailed',
  ],
])

test.each([
  ['computes', 'while (process.threadCpuUsage().user < 3_000_000);'],
  ['waits inside a system call', 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_000)'],
])('a process that %s for three seconds in one turn is found, and one that does not is not', async (_, held) => {
  const port = await freePort()
  const server = `require('node:http').createServer((request, response) => response.end()).listen(${port}, '127.0.0.1')`
  const child = spawn(process.execPath, ['-e', `${server}; process.stdin.once('data', () => { ${held} })`])
  const ended = once(child, 'exit')
  try {
    await using health = await HealthWatch.start({ pid: Number(child.pid), port })
    expect(await health.longest()).toBeLessThan(maxHeld)
    child.stdin.write('now')
    await eventually(async () => (await health.longest()) > 2 * maxHeld)
  } finally {
    child.kill()
    await ended
  }
})
