import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { historyEntry } from '../../src/contract/queries.ts'
import { settingView } from '../../src/contract/settings.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { untilGone } from '../support/agent-world.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer } from '../support/file-server.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleScriptArgs, sampleServerPath } from '../support/sample-servers/sample.ts'

const source = path.resolve(import.meta.dirname, '../../src/cli/metal-agent.ts')
const gguf = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(1_000)])
const done = (stdout: unknown) => ({ code: 0, stdout, stderr: '' })
const saying = (pattern: RegExp): unknown => expect.stringMatching(pattern)

test('stop suspends a service in the cluster, start serves it again, and restart gives it another process', async () => {
  await using world = await serving()
  const { agent, sim } = world
  const { pid } = await agent.service('tiny', 'ready')
  expect(await agent.run('stop', 'tiny')).toEqual(done(saying(/\.\n$/)))
  await agent.service('tiny', 'stopped')
  expect(sim.list('inferenceservices')).toMatchObject([{ spec: { suspend: true } }])
  expect(await agent.run('start', 'default/tiny')).toEqual(done(saying(/\.\n$/)))
  const started = await agent.service('tiny', 'ready')
  expect(await agent.run('restart', 'tiny', '--json')).toEqual(done(saying(/^\{"outcome":"(accepted|done)",/)))
  const restarted = await agent.shows(
    ({ services: [tiny] }) => tiny?.state === 'ready' && tiny.pid !== started.pid && tiny,
    'another process',
  )
  expect(new Set([pid, started.pid, restarted.pid]).size).toBe(3)
})

test('stop --now cuts off the requests that a server would finish, and waits for nothing where there are none', async () => {
  await using world = await serving({
    args: ['--allow-unsafe-extra-args'],
    extraArgs: sampleScriptArgs({ tokenMs: 400 }),
  })
  const { agent } = world
  const { pid = 0, port } = await agent.service('tiny', 'ready')
  const asked = fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ messages: [], max_tokens: 1_000 }),
  }).then((response) => response.text())
  const ended = asked.then(
    () => 'answered',
    () => 'cut off',
  )
  await eventually(async () =>
    /^llamacpp:requests_processing 1$/m.test(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()),
  )
  expect(await agent.run('stop', '--now', 'tiny')).toEqual(done(saying(/requests in flight are cut off\.\n$/)))
  await untilGone(pid)
  expect(await ended).toBe('cut off')
  await agent.service('tiny', 'stopped')
  expect(await agent.run('stop', '--now', 'tiny')).toEqual(done(saying(/already stopped/)))
})

test('status of a service says what it does, or why it is not served here', async () => {
  await using world = await serving({ args: ['--inference-service-allowlist', 'tiny'] })
  const { agent, sim } = world
  sim.create({ ...inferenceService('others'), spec: { modelRef: 'tiny' } })
  const says = async (...words: string[]) => (await agent.run('status', ...words)).stdout
  expect(await says('tiny')).toMatch(/^NAME +NAMESPACE +STATE.*\ntiny +default +. ready .*\n$/)
  await eventually(async () =>
    /^default\/others is not served here: others is not in the allowlist/.test(await says('others', '-n', 'default')),
  )
  expect(await agent.run('status', 'nobody')).toMatchObject({
    code: 2,
    stderr: saying(/has no InferenceService nobody in the namespaces/),
  })
})

test('models cancel ends the download of a service until it is started again', async () => {
  await using world = await serving()
  const { agent, sim, files } = world
  const slow = files.serve('/slow.gguf', Buffer.alloc(1_048_576, 'GGUF'), { paced: true })
  const { apiVersion } = inferenceService('slow')
  sim.create({ apiVersion, kind: 'Model', metadata: { name: 'slow' }, spec: { ...modelSpec, source: slow.url } })
  sim.create({ ...inferenceService('slow'), spec: { modelRef: 'slow' } })
  await agent.service('slow', 'fetching')
  expect(await agent.run('models', 'cancel', 'slow')).toEqual(done(saying(/is cancelled; what has arrived is kept/)))
  expect((await agent.service('slow', 'stopped')).hold).toMatchObject({ cause: 'downloadCancelled' })
})

test('what is done, refused or not there has its own exit code and one sentence', async () => {
  await using world = await serving()
  const { agent } = world
  expect([
    await agent.run('evict', 'tiny'),
    await agent.run('models', 'cancel', 'tiny'),
    await agent.run('stop', 'tyni'),
    await agent.run('host-ip', 'set', 'mars'),
  ]).toEqual([
    done(saying(/^.*tiny.*memory.*\.\n$/)),
    { code: 4, stdout: '', stderr: saying(/^metal-agent: .+\.\n$/) },
    { code: 2, stdout: '', stderr: 'metal-agent: There is no service tyni on this machine; it has default/tiny.\n' },
    { code: 2, stdout: '', stderr: saying(/^metal-agent: The agent would reject this: .+\.\n$/) },
  ])
})

test('logs prints what the server wrote, follows it into the next run, and keeps the one before', async () => {
  await using world = await serving()
  const { agent } = world
  const first = await agent.run('logs', 'tiny')
  expect(first).toEqual(done(saying(/listening/)))
  const follower = followed(agent, 'logs', 'tiny', '-f')
  await eventually(() => follower.stdout.includes(first.stdout), { what: 'what was there' })
  await agent.run('restart', 'tiny')
  await eventually(() => follower.stdout.length > first.stdout.length, { what: 'the next run' })
  await agent.service('tiny', 'ready')
  const previous = await agent.run('logs', 'tiny', '--previous')
  expect(previous.stdout.startsWith(first.stdout)).toBe(true)
  follower.kill()
})

test('history, settings, contexts and addresses are told as tables and as JSON', async () => {
  await using world = await serving()
  const { agent } = world
  const history = z.object({ entries: z.array(historyEntry) })
  const kinds = async () =>
    history.parse(JSON.parse((await agent.run('history', '--json')).stdout)).entries.map(({ kind }) => kind)
  expect((await kinds()).toReversed().filter((kind) => kind !== 'addressChanged')).toEqual([
    'agentStarted',
    'started',
    'ready',
  ])
  expect(await agent.run('history', 'tiny')).toEqual(
    done(saying(/^ID +TIME +WHAT +SERVICE +MESSAGE\n(.*\n)*.* started /)),
  )
  expect(await agent.run('history', '-n', '5')).toMatchObject({
    code: 2,
    stderr: saying(/-n 5 is the namespace of a service: .*--limit/),
  })

  expect(await agent.run('settings', 'set', 'drain-timeout', '5s')).toEqual(done(saying(/drain-timeout is set/)))
  const settings = z.object({ settings: z.array(settingView) })
  const shown = settings.parse(JSON.parse((await agent.run('settings', 'get', 'drain-timeout', '--json')).stdout))
  expect(shown.settings).toMatchObject([{ name: 'drainLimitMs', value: 5_000, from: 'person' }])
  expect(await agent.run('settings', 'get')).toEqual(done(saying(/^drain-timeout +5s +set here/m)))
  expect(await agent.run('settings', 'list')).toEqual(
    done(saying(/^client-port +\S+ +(default|command line) .*takes effect at the next start of the agent\.$/m)),
  )
  expect(await agent.run('settings', 'set', 'client-port', '9998')).toMatchObject({
    code: 2,
    stderr: saying(/^.*client-port takes effect at the next start of the agent: start the agent with --client-port/),
  })
  expect(await agent.run('context')).toEqual(done(saying(/^\* +sim +https:/m)))
  expect(await agent.run('host-ip', 'list')).toEqual(done(saying(/192\.0\.2\.10/)))
  expect((await kinds())[0]).toBe('settingsChanged')
})

test('add makes a model and its service, or only prints them, and delete takes both away', async () => {
  await using world = await serving()
  const { agent, sim } = world
  const [{ spec }] = z.tuple([z.object({ spec: z.object({ source: z.string() }) })]).parse(sim.list('models'))
  const printed = await agent.run('add', 'llama-3.1-8b', '--yaml')
  expect(printed).toEqual(done(saying(/^kind: Model\n[^]*name: llama-3\.1-8b\n[^]*^kind: InferenceService\n/m)))
  expect(await agent.run('add', spec.source, '--name', 'Second')).toMatchObject({
    code: 2,
    stderr: saying(/name must be/),
  })
  expect(sim.list('models')).toHaveLength(1)

  expect(await agent.run('add', spec.source, '--name', 'second', '--context', '1024')).toEqual(
    done(saying(/^default\/second was added: /)),
  )
  const { pid } = await agent.service('second', 'ready')
  expect(sim.get({ resource: 'inferenceservices', name: 'second' })).toMatchObject({ spec: { contextSize: 1_024 } })
  expect(await agent.run('delete', 'second')).toEqual(done(saying(/was deleted\. Its Model second was deleted too/)))
  await untilGone(pid ?? 0)
  expect(sim.list('models')).toHaveLength(1)
})

test('shutdown --keep-serving leaves the server to the next agent, and shutdown alone stops it', async () => {
  await using world = await serving()
  const { agent, next } = world
  const { pid } = await agent.service('tiny', 'ready')
  expect(await agent.run('shutdown', '--keep-serving')).toEqual(
    done(saying(/the next agent on this state folder takes them over/)),
  )
  expect(await agent.exited).toEqual({ code: 0, signal: null })
  await using second = await next()
  expect(await second.service('tiny', 'ready')).toMatchObject({ pid })
  expect(await second.run('shutdown')).toEqual(done(saying(/stops its servers/)))
  expect(await second.exited).toEqual({ code: 0, signal: null })
  await untilGone(pid ?? 0)
  expect(await second.run('status')).toMatchObject({ code: 3, stdout: '' })
})

test('fit sizes with the settings of the agent that runs, beside what it runs, and what it advises is true when it is tried', async () => {
  await using world = await serving()
  const { agent } = world
  const file = path.join(agent.folder, 'new.gguf')
  await writeLlamaGguf(file)
  const fit = async () => {
    const { code, stdout } = await agent.run('fit', file, '--json')
    return { code, ...fitAnswer.parse(JSON.parse(stdout)) }
  }
  const beside = await fit()
  expect(beside).toMatchObject({ code: 0, from: 'agent', verdict: 'fits' })
  expect(beside.room.committedBytes).toBeGreaterThan(0)
  const { totalBytes } = beside
  expect(await agent.run('settings', 'set', 'memory-budget', String(totalBytes))).toMatchObject({ code: 0 })
  expect(await fit()).toMatchObject({
    ...{ code: 6, verdict: 'afterUnloading', room: { budgetBytes: totalBytes } },
    unload: [{ namespace: 'default', name: 'tiny' }],
  })
  expect(await agent.run('fit', file)).toMatchObject({
    code: 6,
    stdout: saying(/and fits when default\/tiny leaves memory/),
  })
  await agent.run('stop', 'tiny')
  await agent.service('tiny', 'stopped')
  expect(await fit()).toMatchObject({
    ...{ code: 0, verdict: 'fits', unload: [] },
    room: { budgetBytes: totalBytes, committedBytes: 0 },
  })
  await agent.run('shutdown')
  await agent.exited
  const alone = await agent.run('fit', file)
  expect(alone.stdout).toMatch(
    /^It fits: it needs .*$[^]*^Sized with this machine's own figures .* No agent is running on the state folder/m,
  )
})

const fitAnswer = z.object({
  from: z.enum(['agent', 'machine']),
  verdict: z.string(),
  totalBytes: z.number(),
  unload: z.array(z.object({ namespace: z.string(), name: z.string() })),
  room: z.object({ budgetBytes: z.number(), committedBytes: z.number() }),
})

const inferenceService = (name: string) => ({
  apiVersion: 'inference.llmkube.dev/v1alpha1',
  kind: 'InferenceService',
  metadata: { name },
})
const modelSpec = { format: 'gguf', hardware: { accelerator: 'metal' } }

async function serving(given: { readonly args?: readonly string[]; readonly extraArgs?: string[] } = {}) {
  await using stack = new AsyncDisposableStack()
  const sim = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: sim.connection() }))
  const files = stack.use(await startFileServer())
  const { url } = files.serve('/tiny.gguf', gguf)
  const service = inferenceService('tiny')
  const { apiVersion, metadata } = service
  sim.create({ apiVersion, kind: 'Model', metadata, spec: { ...modelSpec, source: url } })
  sim.create({ ...service, spec: { modelRef: 'tiny', extraArgs: given.extraArgs ?? [] } })
  const args = ['--llama-server', sampleServerPath, '--mlx-lm-bin', '/nowhere/mlx_lm.server', ...(given.args ?? [])]
  const options = { kubeconfig: sim.kubeconfig(), args }
  const agent = stack.use(await AgentProcess.start(options))
  await agent.service('tiny', 'ready')
  const owned = stack.move()
  return {
    sim,
    files,
    agent,
    next: () => AgentProcess.start({ ...options, folder: agent.folder }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** A verb that goes on, as a process of its own. */
function followed(agent: AgentProcess, ...args: string[]) {
  const child = execa(process.execPath, [source, ...args, '--state-dir', agent.stateDir], { reject: false })
  const seen = { stdout: '', kill: () => child.kill() }
  child.stdout.on('data', (chunk: Buffer) => (seen.stdout += chunk.toString()))
  return seen
}
