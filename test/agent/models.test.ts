import { randomUUID } from 'node:crypto'
import { readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { command, type CommandInput } from '../../src/contract/commands.ts'
import { AgentWorld, commandLineOf } from '../support/agent-world.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { startFakeHub, type FakeHub } from '../support/fake-hub.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { useLlamaServer } from '../support/skip.ts'
import { StatedMemory, statedPlatform } from '../support/stated-memory.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const owned: AsyncDisposable[] = []
afterEach(async () => {
  for (const one of owned.splice(0).reverse()) await one[Symbol.asyncDispose]()
})

const own = <T extends AsyncDisposable>(made: T): T => {
  owned.push(made)
  return made
}

interface World {
  readonly sim: KubeSim
  readonly hub: FakeHub
  readonly folder: string
  readonly start: (...args: string[]) => Promise<AgentProcess>
  readonly apply: (name: string, model: Readonly<Record<string, unknown>>) => void
}

async function world(): Promise<World> {
  const sim = own(await KubeSim.start())
  own(await startControllerStandIn({ connection: sim.connection() }))
  const hub = own(await startFakeHub())
  const { dir } = own(await temporaryFolder())
  return {
    sim,
    hub,
    folder: dir,
    start: async (...args) =>
      own(
        await AgentProcess.start({
          folder: dir,
          kubeconfig: sim.kubeconfig(),
          args: ['--llama-server', sampleServerPath, '--hub-endpoint', hub.endpoint, ...args],
        }),
      ),
    apply: (name, model) => {
      const metadata = { name, namespace: 'default' }
      sim.create({
        apiVersion,
        kind: 'Model',
        metadata,
        spec: { format: 'gguf', hardware: { accelerator: 'metal' }, ...model },
      })
      sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: name } })
    },
  }
}

async function weights(folder: string, seed: number, vocabulary = 300): Promise<Buffer> {
  const file = join(folder, `weights-${seed}.gguf`)
  await writeLlamaGguf(file, { seed, vocabulary })
  return readFile(file)
}

/** What a sample server serves without a question, and long enough to be interrupted. */
function bigFile(bytes: number): Buffer {
  const content = Buffer.alloc(bytes, 'the quick brown fox jumps over the lazy dog ')
  for (let at = 0; at + 4 <= bytes; at += 4096) content.writeUInt32LE(at, at)
  content.write('GGUF')
  return content
}

test('a repository of the Hub is served, listed with its user, and not deleted under it', async () => {
  const { hub, start, apply, folder } = await world()
  await hub.addRepo('org/tiny', { 'tiny-Q4_K_M.gguf': await weights(folder, 1), 'README.md': Buffer.from('hello') })
  const agent = await start()
  apply('chat', { source: 'hf://org/tiny' })
  await agent.service('chat', 'ready')
  // When it was last used is written once its server is ready.
  const listed = await eventually(async () => {
    const { stdout } = await agent.run('models', '--json')
    return stdout.includes('lastUsedAt') ? (JSON.parse(stdout) as unknown) : undefined
  })
  const table = await agent.run('models')
  const removed = await agent.run('models', 'rm', 'chat')
  expect({ listed, table: table.stdout, removed }).toMatchObject({
    listed: {
      models: [
        {
          name: 'chat',
          source: 'hf://org/tiny',
          state: 'complete',
          usedBy: ['default/chat'],
          architecture: 'llama',
          lastUsedAt: expect.stringMatching(/^20/) as string,
        },
      ],
    },
    table: expect.stringMatching(/chat +complete .* default\/chat/) as string,
    removed: {
      code: 4,
      stderr: 'metal-agent: The model chat is used by default/chat: delete or stop that service first.\n',
    },
  })
})

/** Of the only model in the store; empty where there is none. */
async function pathOf(agent: AgentProcess): Promise<string> {
  const { models } = JSON.parse((await agent.run('models', '--json')).stdout) as { models: { path: string }[] }
  return models[0]?.path ?? ''
}

test('a projector that the Model names is given to the server, its memory is counted, and it is fetched again once it is gone', async () => {
  const { hub, start, apply, folder } = await world()
  const projector = await weights(folder, 3)
  await hub.addRepo('org/seeing', { 'seeing-Q4_K_M.gguf': await weights(folder, 2), 'mmproj-F16.gguf': projector })
  const agent = await start()
  apply('seeing', { source: 'hf://org/seeing', mmproj: 'mmproj-F16.gguf' })
  const { pid, memory } = await agent.service('seeing', 'ready')
  expect(await commandLineOf(pid ?? 0)).toMatch(/ --mmproj \S+\/mmproj-F16\.gguf/)
  expect(memory?.items?.mmproj).toBeGreaterThanOrEqual(projector.length)
  const at = async () => join(await pathOf(agent), '../mmproj-F16.gguf')
  await rm(await at())
  process.kill(pid ?? 0, 'SIGKILL')
  await eventually(async () => (await readFile(await at()).catch(() => undefined))?.equals(projector) === true)
})

test('an agent that is killed in a download goes on with it at its next start', async () => {
  const { hub, start, apply } = await world()
  const content = bigFile(12 * 1024 * 1024)
  await hub.addRepo('org/big', { 'big.gguf': content })
  hub.cdn.throttle = 1_500_000
  const agent = await start()
  apply('big', { source: 'hf://org/big/big.gguf' })
  await agent.shows(({ services, figures }) => {
    const progress = figures[services[0]?.uid ?? '']?.progress
    return progress !== undefined && progress.phase === undefined && progress.doneBytes > 10_000_000
  }, 'most of the download')
  agent.signal('SIGKILL')
  await agent.exited
  const before = hub.requests.length
  hub.cdn.throttle = 0
  const next = await start()
  await next.service('big', 'ready')
  const resumed = hub.requests.slice(before).filter(({ server, headers }) => server === 'cdn' && headers['range'])
  const from = Number(/bytes=(\d+)/.exec(resumed[0]?.headers['range'] ?? '')?.[1] ?? 0)
  const kept = await readFile(await pathOf(next))
  expect({ from: from > 500_000, same: kept.equals(content) }).toEqual({ from: true, same: true })
})

test('what cannot be fetched is said in the snapshot and the condition, each in one sentence', async () => {
  const { sim, hub, start, apply } = await world()
  await hub.addRepo('org/private', { 'p.gguf': bigFile(4096) }, { private: true, grantedTo: ['hf_good'] })
  const agent = await start()
  apply('volume', { source: 'pvc://claim/x.gguf' })
  apply('secret', { source: 'hf://org/private', sourceSecretRef: { name: 'hub' } })
  const volume = await agent.service('volume', 'refused', 'FetchFailed')
  const secret = await agent.service('secret', 'waiting', 'FetchFailed')
  const conditions = () => JSON.stringify(sim.get({ resource: 'inferenceservices', name: 'secret' }))
  await eventually(() => conditions().includes('sourceSecretRef'))
  expect([volume.message, secret.message]).toEqual([
    expect.stringMatching(
      /^pvc:\/\/claim\/x\.gguf is a volume inside the cluster, which this machine cannot mount: give /,
    ),
    'Secret default/hub, which spec.sourceSecretRef names, does not exist: create it with the key HF_TOKEN, or remove sourceSecretRef.',
  ])
})

test('a model is pulled without a service, used by the Model that wants it later, and not pruned while that does', async () => {
  const { hub, start, apply, folder } = await world()
  await hub.addRepo('org/tiny', { 'tiny.gguf': await weights(folder, 2) })
  const agent = await start()
  await agent.snapshotWhenUp()
  const pulled = await agent.run('models', 'pull', 'hf://org/tiny', '--name', 'early')
  const asked = hub.requests.length
  const unused = await agent.run('models', 'prune')
  apply('late', { source: 'hf://org/tiny' })
  await agent.service('late', 'ready')
  const pruned = await agent.run('models', 'prune', '--yes')
  const { models } = JSON.parse((await agent.run('models', '--json')).stdout) as { models: object[] }
  expect({
    code: pulled.code,
    end: pulled.stdout.split('\n').at(-2),
    askedAgain: hub.requests.length - asked,
    unused: unused.stdout,
    pruned: pruned.stdout,
    models,
  }).toEqual({
    code: 0,
    end: expect.stringMatching(/^early is at \S+\/models\/@\/early\/\w+\/tiny\.gguf\.$/) as string,
    askedAgain: 0,
    unused: expect.stringMatching(
      /early: no service uses it\.\nNothing was deleted: run it again with --yes\.\n$/,
    ) as string,
    pruned: expect.stringContaining('There is nothing to prune') as string,
    models: [expect.objectContaining({ name: 'early', usedBy: ['default/late'] })],
  })
})

test('a Model that follows its source is served with the new content when that is here', async () => {
  const sim = own(await KubeSim.start())
  const cluster = own(await AgentWorld.open(sim.connection()))
  const hub = own(await startFakeHub())
  const repo = await hub.addRepo('org/moving', { 'm.gguf': await weights(cluster.folder, 3) })
  // In this process, as no flag takes an interval this short.
  const agent = await cluster.startAgent({ settings: { hubEndpoint: hub.endpoint }, refreshEveryMs: 500 })
  const spec = { format: 'gguf', hardware: { accelerator: 'metal' } }
  const moving = { ...spec, source: 'hf://org/moving', refreshPolicy: 'OnChange' }
  await cluster.admin.apply({ apiVersion, kind: 'Model', metadata: { name: 'moving' }, spec: moving })
  await cluster.applyService('moving')
  const before = await agent.untilReady('moving')
  const newer = await weights(cluster.folder, 4)
  await repo.commit({ 'm.gguf': newer })
  const after = await agent.untilReadyAgain('moving', before.pid)
  const { models } = (await agent.agent.query({ name: 'models' })) as { models: readonly { path: string }[] }
  expect([after.restarts, (await readFile(models[0]?.path ?? '')).equals(newer)]).toEqual([before.restarts, true])
})

test('a source that is no answer to the first question about an adopted server is asked again, until the server has what it holds', async () => {
  const sim = own(await KubeSim.start())
  const cluster = own(await AgentWorld.open(sim.connection()))
  const hub = own(await startFakeHub())
  const repo = await hub.addRepo('org/moving', { 'm.gguf': await weights(cluster.folder, 3) })
  const settings = { hubEndpoint: hub.endpoint }
  await cluster.apply('moving', { source: 'hf://org/moving' })
  await cluster.patchModel('moving', { refreshPolicy: 'OnChange' })
  const first = await cluster.startAgent({ settings })
  const before = await first.untilReady('moving')
  await first.leave()
  await rm(join(first.stateDir, 'models'), { recursive: true })
  // Which of two is meant is for a person to say.
  const newer = await weights(cluster.folder, 4)
  await repo.commit({ 'm.gguf': newer, 'n.gguf': newer })
  const next = await cluster.startAgent({ settings, refreshEveryMs: 500 })
  await eventually(async () => (await cluster.eventReasons('moving')).includes('StartFailed'))
  expect((await next.untilReady('moving')).pid).toBe(before.pid)
  await repo.commit({ 'm.gguf': newer })
  await next.untilReadyAgain('moving', before.pid)
})

test('how fast models download counts at once', async () => {
  const sim = own(await KubeSim.start())
  const cluster = own(await AgentWorld.open(sim.connection()))
  const agent = await cluster.startAgent({ settings: { downloadBytesPerSecond: 1_000 } })
  const names = ['first', 'second', 'third']
  const files = names.map((name) => cluster.files.serve(`/${name}.gguf`, bigFile(4 * 1024 ** 2)))
  for (const [at, name] of names.entries()) await cluster.apply(name, { source: files[at]?.url ?? '' })
  const isAsked = () => files.map(({ requests }) => requests.length > 0)
  await eventually(() => isAsked().filter(Boolean).length === 2)
  await Promise.all(names.map((name) => agent.until(name, 'fetching')))
  expect(isAsked().filter(Boolean)).toHaveLength(2)
  // At a thousand bytes a second each would take an hour.
  await agent.command({ name: 'updateSettings', settings: { downloadBytesPerSecond: 0 } })
  for (const name of names) await agent.untilReady(name)
})

test('what services run is not deleted when their Model is gone, by this agent and by the next', async () => {
  const sim = own(await KubeSim.start())
  const cluster = own(await AgentWorld.open(sim.connection()))
  const first = await cluster.startAgent()
  await cluster.applyModel('shared')
  for (const name of ['x', 'y']) await cluster.applyService(name, { modelRef: 'shared' })
  for (const name of ['x', 'y']) await first.untilReady(name)
  await cluster.deleteModel('shared')
  const tidied = async (running: RunningAgent) => {
    for (const name of ['x', 'y'])
      await running.until(name, ({ message }) => /There is no Model "shared"/.test(message))
    const requests: readonly CommandInput[] = [
      { name: 'pruneModels', dryRun: false },
      { name: 'removeModel', model: 'shared' },
    ]
    const told = requests.map(async (input) => {
      const result = await running.agent.command({ requestId: randomUUID(), command: command.parse(input) })
      return 'message' in result ? result.message : result
    })
    return Promise.all(told)
  }
  const kept = [
    'There is nothing to prune: every model in the store is used by a service.',
    `The model shared is used by ${cluster.namespace}/x, ${cluster.namespace}/y: delete or stop those services first.`,
  ]
  expect(await tidied(first)).toEqual(kept)
  await first.leave()
  const next = await cluster.startAgent()
  expect(await tidied(next)).toEqual(kept)
})

test('a store that the agent makes is left out of backups, once: what was there before, or is not there now, is left alone', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const told: string[] = []
  const memory = new StatedMemory(
    statedPlatform(hostPlatform(), { leaveOutOfBackups: (store) => Promise.resolve(void told.push(store)) }),
  )
  const fresh = join(world.folder, 'new-store')
  const absent = join(world.folder, 'Volumes/Big/models')
  for (const [index, modelStore] of [fresh, fresh, absent].entries()) {
    const agent = await world.startAgent({ name: `backup-${index}`, memory, settings: { modelStore } })
    await agent.stop()
  }
  expect(told).toEqual([fresh])
  await expect(stat(join(world.folder, 'Volumes'))).rejects.toThrow('ENOENT')
})

describe('with a real llama-server', () => {
  const llamaServer = useLlamaServer()

  test('a repository of the Hub is loaded and answers', async () => {
    const { hub, start, apply, folder } = await world()
    await hub.addRepo('org/real', { 'real-F32.gguf': await weights(folder, 6) })
    const agent = await start('--llama-server', llamaServer)
    apply('real', { source: 'org/real', quantization: 'F32' })
    const { port } = await agent.service('real', 'ready')
    const answer = await fetch(`http://127.0.0.1:${port ?? 0}/props`)
    expect(await answer.text()).toContain('real-F32.gguf')
  })
})
