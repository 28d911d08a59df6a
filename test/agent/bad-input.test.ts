import { execFileSync, spawnSync } from 'node:child_process'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { ClusterView } from '../../src/contract/cluster.ts'
import type { ServiceReason, ServiceState } from '../../src/contract/service.ts'
import { AgentProcess, missingSetpriv, type AgentProcessOptions } from '../support/agent-process.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer, type FileServer } from '../support/file-server.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** What a person reads for each bad input: in the terminal, in the snapshot, and on the object where there is one. */
const sentences = {
  noKubeconfig:
    'There is no kubeconfig at <folder>/kubeconfig; copy one from your cluster there, or name one with --kubeconfig.',
  brokenYaml:
    'The kubeconfig <folder>/kubeconfig is not valid: bad indentation of a mapping entry (8:12). Correct it or choose another with --kubeconfig.',
  unknownContext:
    'The kubeconfig has no context "prod"; it has sim. Bring it back, or choose one with metal-agent context use NAME, or with --context.',
  notAUrl:
    'Context "sim" names the server "10.0.0.1:6443", which is not an address such as https://HOST:6443; correct it in the kubeconfig or choose another context.',
  namespace: 'The namespace "team-a" does not exist in this cluster; create it, or name another with --namespace.',
  offline:
    'The cluster at <cluster> does not answer (connect ECONNREFUSED <cluster address>); check that it runs and that this machine reaches it.',
  noDefinitions: "The cluster does not have LLMKube's API group inference.llmkube.dev; install LLMKube there.",
  oldDefinitions:
    "The cluster has LLMKube's old API group llmkube.io and not inference.llmkube.dev; upgrade LLMKube there.",
  noRights:
    'These credentials may not read inferenceservices (inferenceservices.inference.llmkube.dev is forbidden: User "guest" cannot list resource "inferenceservices" in API group "inference.llmkube.dev" in the namespace "default"); ask for the rights to get, list and watch them.',
  modelMissing: 'There is no Model "late" in namespace default; create it, or correct spec.modelRef.',
  notFound: '<files>/nothing.gguf answered 404 Not Found: correct spec.source or put the file there.',
  webPage:
    '<files>/login.gguf answered with a web page instead of a model: check spec.source, or whether the network asks for a login.',
  wrongLength: 'The download of <files>/short.gguf ended after <some> of 5000 bytes: the agent tries again.',
  pathMissing: '<folder>/absent.gguf does not exist on this machine: put the model file there or change spec.source.',
  pathUnreadable: '<folder>/locked.gguf is not readable by this user: change its permissions.',
  huggingFace:
    'hf://org does not name a Hugging Face repository: write it as hf://owner/name, hf://owner/name/file.gguf or hf://owner/name@revision.',
  volume:
    'pvc://claim/m.gguf is a volume inside the cluster, which this machine cannot mount: give an https:// address, or copy the file to this machine and give its absolute path.',
  mlx: 'The runtime "llama-server" (annotation metalbar.dev/runtime) cannot serve a Model of format "mlx": leave the runtime to the format or choose mlx-lm, or use a Model of another format.',
  unknownRuntime:
    'The runtime "vllm" (spec.runtime) does not run on this machine: use llama-server, mlx-lm, mlx-server, vllm-swift, tensorfold, ollama or omlx, or correct the name.',
  outOfRange:
    'InferenceService default/wide is not usable: spec.replicas: Too big: expected number to be <=10. Correct it and apply it again.',
  fieldsAbsent: 'InferenceService default/bare names no Model; set spec.modelRef.',
  sourceAbsent: 'Model default/sourceless has no spec.source.',
  binaryMissing:
    '<folder>/bin/llama-server was given as llama-server (--llama-server), but there is no such file: correct the path.',
  binaryNotExecutable:
    '<folder>/bin/llama-server was given as llama-server (--llama-server), but it is not executable by this user: correct the path.',
  portTaken: 'Port <port> (--port-range) is taken by process <pid> (<command>): stop it, or choose another port.',
  exitsAtStart:
    'sample-server.cjs exited with code 1 while starting: error: unknown model architecture: "banana". This llama-server does not know this kind of model: upgrade llama.cpp, or choose another model.',
  diskFull:
    'The model needs 200 kB and 655 B stay in reserve, but the volume of <folder>/models has <size> free: make room there or choose another --model-store.',
} as const

const gguf = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(1_000)])

describe.concurrent('a cluster that cannot be used', () => {
  test('no kubeconfig: the agent waits for one', async () => {
    await using sim = await KubeSim.start()
    await using agent = await AgentProcess.start()
    expect(await complaint(agent, 'offline')).toBe(sentences.noKubeconfig)
    await agent.writeKubeconfig(sim.kubeconfig())
    await connects(agent)
  })

  test('a context the kubeconfig does not have', async () => {
    await using sim = await KubeSim.start()
    await using agent = await AgentProcess.start({ kubeconfig: sim.kubeconfig(), args: ['--context', 'prod'] })
    expect(await complaint(agent, 'offline')).toBe(sentences.unknownContext)
    await agent.writeKubeconfig(sim.kubeconfig().replace('name: sim, context', 'name: prod, context'))
    await connects(agent, 'prod')
  })

  test('a namespace that does not exist', async () => {
    await using sim = await KubeSim.start()
    await using agent = await AgentProcess.start({ kubeconfig: sim.kubeconfig(), args: ['--namespace', 'team-a'] })
    const said = await complaint(agent, 'live', (message) => message !== 'Connected')
    expect(said).toBe(sentences.namespace)
    sim.createNamespace('team-a')
    sim.create(inferenceService('first', {}, { namespace: 'team-a' }))
    await agent.service('first', 'waiting', 'ModelMissing')
    await agent.shows(({ cluster }) => cluster.message === 'Connected', 'no complaint any more')
  })

  test('an API server that is down at start', async () => {
    await using sim = await KubeSim.start()
    await sim.stop()
    await using agent = await AgentProcess.start({ kubeconfig: sim.kubeconfig() })
    expect(await complaint(agent, 'offline', undefined, sim)).toBe(sentences.offline)
    await sim.start()
    await connects(agent)
  })

  test("LLMKube's definitions not installed", async () => {
    await using sim = await KubeSim.start({ crds: false })
    await using agent = await AgentProcess.start({ kubeconfig: sim.kubeconfig() })
    expect(await complaint(agent, 'absent')).toBe(sentences.noDefinitions)
    await sim.installCrds()
    await connects(agent)
  })

  test('no rights', async () => {
    const guest = { name: 'guest', token: 'guest-token', rules: [] }
    await using sim = await KubeSim.start({ users: [guest] })
    await using agent = await AgentProcess.start({ kubeconfig: sim.kubeconfig({ user: 'guest' }) })
    expect(await complaint(agent, 'denied')).toBe(sentences.noRights)
    sim.users = [{ ...guest, rules: sim.administrator.rules }]
    await connects(agent)
  })
})

describe('a service that cannot be served', () => {
  let there: Machine
  let steadyPid: number | undefined
  beforeAll(async () => {
    there = await machine()
    apply(there.sim, 'steady', there.goodModel)
    steadyPid = (await there.agent.service('steady', 'ready')).pid
  })
  afterAll(() => there[Symbol.asyncDispose]())

  test.concurrent('its Model is missing, until it comes', async () => {
    const { sim, agent, goodModel } = there
    sim.create(inferenceService('late'))
    await tells(there, 'late', ['waiting', 'ModelMissing', 'Refused'], sentences.modelMissing)
    sim.create(model('late', goodModel))
    await agent.service('late', 'ready')
  })

  test.concurrent('its Model asks for another accelerator: it is none of ours, and nothing is said', async () => {
    const { sim, agent, goodModel } = there
    const before = agent.log.length
    sim.create(model('nvidia', goodModel, { hardware: { accelerator: 'cuda' } }))
    sim.create(inferenceService('nvidia'))
    sim.create(model('nvidia-neighbour', goodModel))
    sim.create(inferenceService('nvidia-neighbour'))
    await agent.service('nvidia-neighbour', 'ready')
    const { services } = await agent.snapshot()
    expect({
      shown: services.some(({ name }) => name === 'nvidia'),
      logged: agent.log.slice(before).filter((line) => JSON.stringify(line).includes('default/nvidia"')),
      told: toldOn(sim, 'nvidia'),
    }).toEqual({ shown: false, logged: [], told: { events: [], condition: undefined } })
    sim.patch({ resource: 'models', name: 'nvidia' }, { spec: { hardware: { accelerator: 'metal' } } })
    await agent.service('nvidia', 'ready')
  })

  test.concurrent('its URL answers 404', async () => {
    const { files } = there
    apply(there.sim, 'unknown', `${files.origin}/nothing.gguf`)
    await tells(there, 'unknown', ['waiting', 'FetchFailed', 'StartFailed'], sentences.notFound)
    await isCorrected(there, 'unknown', there.goodModel)
  })

  test.concurrent('its URL answers with a web page', async () => {
    const { files } = there
    apply(there.sim, 'login', files.serve('/login.gguf', gguf, { fault: { kind: 'html' } }).url)
    await tells(there, 'login', ['waiting', 'FetchFailed', 'StartFailed'], sentences.webPage)
    await isCorrected(there, 'login', there.goodModel)
  })

  test.concurrent('its local file is missing, until it is put there', async () => {
    const file = path.join(there.agent.folder, 'absent.gguf')
    apply(there.sim, 'absent', file)
    await tells(there, 'absent', ['waiting', 'FetchFailed', 'StartFailed'], sentences.pathMissing)
    await writeFile(file, gguf)
    await there.agent.service('absent', 'ready')
  })

  test.concurrent.for([
    { scheme: 'hf://', source: 'hf://org', sentence: sentences.huggingFace },
    { scheme: 'pvc://', source: 'pvc://claim/m.gguf', sentence: sentences.volume },
  ])('its source has the scheme $scheme', async ({ scheme, source, sentence }) => {
    const name = `scheme-${scheme.slice(0, 2)}`
    apply(there.sim, name, source)
    await tells(there, name, ['refused', 'FetchFailed', 'StartFailed'], sentence)
    await isCorrected(there, name, there.goodModel)
  })

  test.concurrent('its Model has the format mlx', async () => {
    const { sim, agent, goodModel } = there
    sim.create(model('mlx', goodModel, { format: 'mlx' }))
    sim.create(inferenceService('mlx', {}, { annotations: { 'metalbar.dev/runtime': 'llama-server' } }))
    await tells(there, 'mlx', ['refused', 'Refused', 'Refused'], sentences.mlx)
    sim.patch({ resource: 'models', name: 'mlx' }, { spec: { format: 'gguf' } })
    await agent.service('mlx', 'ready')
  })

  test.concurrent('its runtime does not run here', async () => {
    const { sim, agent, goodModel } = there
    sim.create(model('vllm', goodModel))
    sim.create(inferenceService('vllm', { runtime: 'vllm' }))
    await tells(there, 'vllm', ['refused', 'Refused', 'Refused'], sentences.unknownRuntime)
    sim.patch({ resource: 'inferenceservices', name: 'vllm' }, { spec: { runtime: null } })
    await agent.service('vllm', 'ready')
  })

  test('meanwhile a service that is fine stays as it was', async () => {
    const { state, pid, restarts } = await there.agent.service('steady', 'ready')
    expect({ state, pid, restarts, exit: there.agent.exit }).toEqual({
      state: 'ready',
      pid: steadyPid,
      restarts: 0,
      exit: undefined,
    })
  })
})

describe.concurrent('a machine that is not ready for models', () => {
  test('llama-server is not there, until it is installed', async () => {
    await using there = await machine({ args: (folder) => ['--llama-server', path.join(folder, 'bin/llama-server')] })
    const { agent } = there
    apply(there.sim, 'model', there.goodModel)
    await tells(there, 'model', ['crash-looping', 'CrashLooping', 'StartFailed'], sentences.binaryMissing)
    await installSample(agent.folder, 0o755)
    await agent.service('model', 'ready')
  })

  test('the fixed port is taken, until it is free', async () => {
    const squatter = createServer().listen(0, '0.0.0.0')
    await eventually(() => squatter.listening)
    const address = squatter.address()
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0
    await using there = await machine({ args: () => ['--llama-server-port', String(port)] })
    apply(there.sim, 'model', there.goodModel)
    await tells(there, 'model', ['crash-looping', 'CrashLooping', 'StartFailed'], sentences.portTaken)
    squatter.close()
    const { port: served } = await there.agent.service('model', 'ready')
    expect(served).toBe(port)
  })

  test('the model file may not be read, until it may', async ({ skip }) => {
    const missing = missingSetpriv()
    if (missing !== undefined) skip(missing)
    await using there = await machine({ obeysFileModes: true })
    const file = path.join(there.agent.folder, 'locked.gguf')
    await writeFile(file, gguf, { mode: 0 })
    apply(there.sim, 'locked', file)
    await tells(there, 'locked', ['waiting', 'FetchFailed', 'StartFailed'], sentences.pathUnreadable)
    await chmod(file, 0o400)
    await there.agent.service('locked', 'ready')
  })

  test('the disk is full, until there is room', async ({ skip }) => {
    await using folder = await temporaryFolder()
    const store = path.join(folder.dir, 'models')
    await mkdir(store)
    if (!mounted(store, 'size=64k')) skip('a small volume needs Linux, root and the right to mount')
    try {
      await using there = await machine({ folder: folder.dir })
      const { url } = there.files.serve('/large.gguf', Buffer.concat([gguf, Buffer.alloc(200_000 - gguf.length)]))
      apply(there.sim, 'full', url)
      await tells(there, 'full', ['waiting', 'FetchFailed', 'StartFailed'], sentences.diskFull)
      mounted(store, 'remount,size=1m')
      await there.agent.service('full', 'ready')
    } finally {
      execFileSync('umount', [store])
    }
  })

  test('fields that an older or edited schema lets through: out of range, or all of them absent', async () => {
    await using sim = await KubeSim.start({ crds: false })
    for (const [plural, kind] of [
      ['inferenceservices', 'InferenceService'],
      ['models', 'Model'],
    ] as const) {
      sim.create(definition('inference.llmkube.dev', plural, kind))
    }
    await using files = await startFileServer()
    const goodModel = files.serve('/good.gguf', gguf).url
    sim.create(model('wide', goodModel))
    sim.create(inferenceService('wide', { replicas: 99, contextSize: 'much' }))
    sim.create({ ...inferenceService('bare'), spec: {} })
    sim.create(model('sourceless', undefined))
    sim.create(inferenceService('sourceless'))
    await using agent = await AgentProcess.start({
      kubeconfig: sim.kubeconfig(),
      args: ['--llama-server', sampleServerPath],
    })
    const where = { sim, agent, files }
    await tells(where, 'wide', ['refused', 'Refused', 'Refused'], sentences.outOfRange)
    await tells(where, 'bare', ['refused', 'Refused', 'Refused'], sentences.fieldsAbsent)
    await tells(where, 'sourceless', ['refused', 'Refused', 'Refused'], sentences.sourceAbsent)
    sim.patch({ resource: 'inferenceservices', name: 'wide' }, { spec: { replicas: 1, contextSize: 512 } })
    await agent.service('wide', 'ready')
  })
})

type Where = Pick<Machine, 'sim' | 'agent'> & Partial<Pick<Machine, 'files'>>

/** Waits until the agent complains about its cluster, checks that its log has the same words, and answers them. */
async function complaint(
  agent: AgentProcess,
  state: ClusterView['state'],
  isOne: (message: string) => boolean = () => true,
  sim?: KubeSim,
): Promise<string> {
  const { message } = await agent.shows(
    ({ cluster }) => cluster.state === state && isOne(cluster.message) && cluster,
    `the cluster as ${state}`,
  )
  // The log comes on another way than the snapshot.
  await eventually(() => {
    const words = agent.log.filter(({ level }) => level === 'warn' || level === 'error').flatMap(Object.values)
    expect(words).toContain(message)
    return true
  })
  return plain(message, { agent, ...(sim && { sim }) })
}

async function connects(agent: AgentProcess, context = 'sim'): Promise<void> {
  await agent.shows(({ cluster }) => cluster.state === 'live' && cluster.context === context, 'a live cluster')
}

/** One sentence, the same in snapshot, log, Events and condition; what fails again has a second Event, which counts. */
async function tells(
  where: Where,
  name: string,
  [state, reason, eventReason]: [ServiceState, ServiceReason, string],
  sentence: string,
): Promise<void> {
  const { sim, agent } = where
  const view = await agent.service(name, state, reason)
  const eventReasons = reason === 'CrashLooping' ? [reason, eventReason] : [eventReason]
  const told = await eventually(() => {
    const { events, condition } = toldOn(sim, name)
    return condition?.reason === reason && events.length >= eventReasons.length && { events, condition }
  })
  const logged = agent.log.find(
    (line) => line.msg === 'state' && line['key'] === `default/${name}` && line['reason'] === reason,
  )
  expect({
    snapshot: plain(view.message, where),
    log: { level: logged?.level, message: plain(String(logged?.['message']), where) },
    events: told.events.map((event) => ({ ...event, message: plain(event.message, where) })),
    condition: { reason: told.condition.reason, message: plain(told.condition.message, where) },
    lives: agent.exit === undefined,
  }).toEqual({
    snapshot: sentence,
    log: { level: 'warn', message: sentence },
    events: eventReasons.map((one) => ({ reason: one, message: sentence })),
    condition: { reason, message: sentence },
    lives: true,
  })
}

const eventShape = z.object({
  type: z.string(),
  reason: z.string(),
  message: z.string().transform((message) => message.replace(/ Next attempt in \d+ s\.$/, '')),
  involvedObject: z.object({ name: z.string() }),
})
const conditionsShape = z.object({
  status: z.object({
    conditions: z.array(z.object({ type: z.string(), reason: z.string(), message: z.string() })).default([]),
  }),
})

/** The warnings, by their reasons, and our condition on an InferenceService. */
function toldOn(sim: KubeSim, name: string) {
  const events = sim
    .list('events')
    .map((event) => eventShape.parse(event))
    .filter(({ type, involvedObject }) => type === 'Warning' && involvedObject.name === name)
    .map(({ reason, message }) => ({ reason, message }))
    .sort((a, b) => (a.reason < b.reason ? -1 : 1))
  const { data } = conditionsShape.safeParse(sim.get({ resource: 'inferenceservices', name }))
  const condition = data?.status.conditions.find(({ type }) => type === 'MetalAgent')
  return { events, condition: condition && { reason: condition.reason, message: condition.message } }
}

/** Without what differs from run to run. */
function plain(message: string, { agent, sim, files }: Partial<Where>): string {
  const names: [what: string | undefined, name: string][] = [
    [agent?.folder, '<folder>'],
    [sim?.url, '<cluster>'],
    [sim?.url.replace(/^https?:\/\//, ''), '<cluster address>'],
    [files?.origin, '<files>'],
  ]
  return names
    .reduce((text, [what, name]) => (what === undefined ? text : text.replaceAll(what, name)), message)
    .replace(/^Failed \d+ times in a row, next attempt at [\d:]+Z: /, '')
    .replace('upgrade it ("brew upgrade llama.cpp")', 'upgrade llama.cpp')
    .replace(/Port \d+/, 'Port <port>')
    .replace(/process \d+ \([^)]*\)/, 'process <pid> (<command>)')
    .replace(/has [\d.]+ kB free/, 'has <size> free')
    .replace(/after \d+ of/, 'after <some> of')
}

interface Machine extends AsyncDisposable {
  readonly sim: KubeSim
  readonly files: FileServer
  readonly agent: AgentProcess
  /** URL of a model that can be served. */
  readonly goodModel: string
}

interface MachineOptions extends Omit<AgentProcessOptions, 'args' | 'kubeconfig'> {
  readonly args?: (folder: string) => readonly string[]
  readonly prepare?: (folder: string) => Promise<void>
}

/** A cluster with LLMKube's controller, a file server, and an agent with a sample for llama-server. */
async function machine({ args, prepare, ...options }: MachineOptions = {}): Promise<Machine> {
  await using stack = new AsyncDisposableStack()
  const folder = options.folder ?? stack.use(await temporaryFolder()).dir
  await prepare?.(folder)
  const sim = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: sim.connection() }))
  const files = stack.use(await startFileServer())
  const agent = stack.use(
    await AgentProcess.start({
      ...options,
      folder,
      kubeconfig: sim.kubeconfig(),
      args: ['--llama-server', sampleServerPath, '--allow-unsafe-extra-args', ...(args?.(folder) ?? [])],
    }),
  )
  const goodModel = files.serve('/good.gguf', gguf).url
  const owned = stack.move()
  return { sim, files, agent, goodModel, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

/** A sample under the name of the real one, as an installation would leave it. */
async function installSample(folder: string, mode: number): Promise<void> {
  const file = path.join(folder, 'bin/llama-server')
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(file, `#!/bin/sh\nexec '${sampleServerPath}' "$@"\n`)
  await chmod(file, mode)
}

/** False where it may not be done. */
function mounted(folder: string, options: string): boolean {
  return spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status === 0
}

const apiVersion = 'inference.llmkube.dev/v1alpha1'

const model = (name: string, source: string | undefined, spec: object = {}) => ({
  apiVersion,
  kind: 'Model',
  metadata: { name },
  spec: { source, format: 'gguf', hardware: { accelerator: 'metal' }, ...spec },
})

const inferenceService = (name: string, spec: object = {}, metadata: object = {}) => ({
  apiVersion,
  kind: 'InferenceService',
  metadata: { name, ...metadata },
  spec: { modelRef: name, contextSize: 512, ...spec },
})

function apply(sim: KubeSim, name: string, source: string): void {
  sim.create(model(name, source))
  sim.create(inferenceService(name))
}

async function isCorrected({ sim, agent }: Where, name: string, source: string): Promise<void> {
  sim.patch({ resource: 'models', name }, { spec: { source } })
  await agent.service(name, 'ready')
}

/** A definition that accepts anything. */
const definition = (group: string, plural: string, kind: string) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${plural}.${group}` },
  spec: {
    group,
    scope: 'Namespaced',
    names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase() },
    versions: [
      {
        name: 'v1alpha1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
})
