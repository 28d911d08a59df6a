import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '../src/agent-core/observability/log.ts'
import { hostPlatform } from '../src/agent-core/platform/host.ts'
import { agentSettings } from '../src/agent-core/settings/settings.ts'
import { hasCode } from '../src/agent-core/util/files.ts'
import { renderReport } from '../src/cli/doctor.ts'
import { renderStatus } from '../src/cli/status-verbs.ts'
import { doctorReport } from '../src/contract/doctor.ts'
import { formatBytes } from '../src/contract/format.ts'
import { hostAgent, type HostedAgent } from '../src/serve/host-agent.ts'
import { startControllerStandIn } from '../test/support/controller-stand-in/controller-stand-in.ts'
import { startFakeHub, type FakeHub } from '../test/support/fake-hub.ts'
import { startFileServer } from '../test/support/file-server.ts'
import { writeLlamaGguf } from '../test/support/gguf-writer.ts'
import { KubeSim } from '../test/support/kube-sim/kube-sim.ts'
import { findLlamaServer } from '../test/support/llama-server.ts'
import { writeMlxModel } from '../test/support/mlx-writer.ts'
import { mlxLmPart } from '../tasks/setup/mlx-lm.ts'
import { lookAt, tellFigures } from './figures.ts'
import { sampleObjects } from './objects.ts'
import { askAt, askLikeAPod } from './pod.ts'
import { samplePower } from './sample-power.ts'
import { tellSteps, tellWhyItWaits } from './steps.ts'

const runsOnce = process.env['ONCE'] === '1'
const sampleServer = join(import.meta.dirname, '../test/support/sample-servers/sample-server.cjs')
const agentProgram = join(import.meta.dirname, '../src/cli/metal-agent.ts')
/** Slow enough to be seen: the second model takes about five seconds. */
const slowBytesPerSecond = 3_000_000
/** Where the Hub's connection is broken off, so that the rest has to be fetched by another. */
const brokenOffAfterBytes = 5_000_000
/** Of a 7B model as Llama 2 was: its cache takes half a megabyte for each token. */
const greedyShape = { blocks: 32, embedding: 4096, heads: 32, kvHeads: 32, feedForward: 11_008, context: 4096 }
const greedyKvBytesPerToken = 2 * 2 * greedyShape.blocks * greedyShape.embedding
/** The most that the CRD allows. */
const longestContext = 2_097_152
const question = 'What is a Mac good for?'

const say = (text: string): void => void process.stdout.write(`${text}\n`)

const folder = await mkdtemp(join(tmpdir(), 'metalbar-demo-'))
const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
const stack = new AsyncDisposableStack()
stack.defer(() => rm(folder, { recursive: true, force: true }))
let exitCode = 0
try {
  const isInterrupted = await Promise.race([run().then(() => false), interrupted.then(() => true)])
  if (!runsOnce && !isInterrupted) {
    say('\nRunning until you press Ctrl-C.')
    await interrupted
  }
} catch (error) {
  say(`\nThe demo cannot continue: ${error instanceof Error ? error.message : String(error)}`)
  exitCode = 1
}
if (!runsOnce) say('\nStopping: withdraw, let requests finish, stop the servers.')
await stack.disposeAsync()
process.exit(exitCode)

async function run(): Promise<void> {
  const real = findLlamaServer()
  say('Metalbar demo: a simulated cluster, a real agent, real processes.\n')
  say(
    'path' in real
      ? `Runtime   the real llama-server`
      : `Runtime   a SAMPLE that makes up its answers, because there is no llama-server here: ${real.missing}`,
  )
  const mlxLm = mlxLmPart.find()
  say(
    mlxLm.found
      ? 'MLX       the real mlx-lm, which computes on the processor here'
      : `MLX       left out, because there is no mlx-lm here ("make setup" installs it): ${mlxLm.reason}`,
  )
  say(`Power     ${samplePower.name}`)
  const [small, large] = [join(folder, 'small.gguf'), join(folder, 'large.gguf')]
  await writeLlamaGguf(small)
  await writeLlamaGguf(large, { blocks: 4, embedding: 256, heads: 8, kvHeads: 4, feedForward: 1024, seed: 2 })
  const files = stack.use(await startFileServer())
  const quick = files.serve('/quick.gguf', { file: small })
  const hub = stack.use(await startFakeHub())
  await hub.addRepo('demo/slow', { 'slow.gguf': { file: large } })
  hub.cdn.throttle = slowBytesPerSecond
  hub.cdn.drops.push(brokenOffAfterBytes)

  const cluster = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: cluster.connection() }))
  say(`Cluster   simulated, with a stand-in for LLMKube's controller, at ${cluster.url}`)

  const hosted = await startAgent(cluster, {
    llamaServer: 'path' in real ? real.path : sampleServer,
    hubEndpoint: hub.endpoint,
    mlxLm: mlxLm.found ? mlxLm.path : undefined,
  })
  const { door } = hosted
  const { host } = door.get()
  say(`Agent     ${host.displayName}: ${host.message}\n`)

  const apples = join(folder, 'apples')
  if (mlxLm.found) {
    await writeMlxModel(apples)
    const names = await readdir(apples)
    await hub.addRepo('demo/apples', Object.fromEntries(names.map((name) => [name, { file: join(apples, name) }])))
  }
  const models = [
    ...[sampleObjects('quick', quick.url), sampleObjects('slow', 'hf://demo/slow')],
    ...(mlxLm.found ? [sampleObjects('apples', 'hf://demo/apples', { format: 'mlx' })] : []),
  ]
  const names = ['quick', 'slow', ...(mlxLm.found ? ['apples'] : [])]
  const finished = tellSteps(door, names, say)
  say(`$ kubectl apply${names.map((name) => ` -f ${name}.yaml`).join('')}`)
  for (const object of models.flat()) cluster.create(object)
  await finished
  say(`\nThe Hub broke the download of slow off, and the agent ${resumption(hub.requests, (await stat(large)).size)}.`)

  using _look = await lookAt(door, 'quick')
  say(`\nA Pod asks http://quick:8080/v1/chat/completions "${question}"`)
  const answer = await askLikeAPod(cluster, 'quick', question)
  say(`  Service quick, EndpointSlice: ${answer.url}, where the gateway passes it on to the server on 127.0.0.1`)
  say(`  completion: ${JSON.stringify(answer.content)}`)
  if ('path' in real) say('  (a random-weight model of 0.5 MB has no better words; the path is the real one)')
  const proxy = door.get().host.clientProxy
  if (proxy === undefined) throw new Error('The client proxy does not listen.')
  say(`\nA program of this Mac asks ${proxy}/v1/chat/completions for the model quick`)
  say(`  completion: ${JSON.stringify(await askAt(proxy, 'quick', question))}`)
  await tellFigures(door, 'quick', say)
  if (mlxLm.found) {
    say('\nAnother asks it for the model apples, which mlx-lm serves beside llama-server')
    say(`  completion: ${JSON.stringify(await askAt(proxy, 'apples', question))}`)
    say('  (bytes of random weights again: mlx-lm takes no grammar, which makes letters of those of quick)')
  }

  const greedy = join(folder, 'greedy.gguf')
  await writeLlamaGguf(greedy, { ...greedyShape, weightType: 'Q4_0', weights: 'hole' })
  const contextSize = contextBeyond(door.get().memory?.budgetBytes)
  say(`\n$ kubectl apply -f greedy.yaml   (a 7B model with a context of ${contextSize} tokens)`)
  for (const object of sampleObjects('greedy', greedy, { contextSize })) cluster.create(object)
  await tellWhyItWaits(door, 'greedy', say)

  say(
    `\n$ metal-agent status\n${renderStatus(door.get(), { columns: process.stdout.columns, colour: process.stdout.isTTY, unicode: true })}`,
  )
  const report = doctorReport.parse(await door.query({ name: 'doctor' }))
  say(`\n$ metal-agent doctor\n${renderReport(report, process)}`)
  if (runsOnce) return
  say(
    `The window, in a browser of this machine (the address works once, for two minutes):\n  ${await hosted.openWindow()}`,
  )
}

/** A model whose cache alone takes twice the budget of the demonstration. */
function contextBeyond(budgetBytes = Infinity): number {
  const steps = Math.ceil((2 * budgetBytes) / greedyKvBytesPerToken / 1024)
  return Math.min(longestContext, 1024 * steps)
}

/** As the Hub saw it. */
function resumption(requests: FakeHub['requests'], totalBytes: number): string {
  const ranges = requests.flatMap(({ server, headers }) => (server === 'cdn' ? [headers.range ?? 'bytes=0-'] : []))
  const from = Number(/^bytes=(\d+)-/.exec(ranges.at(-1) ?? '')?.[1] ?? 0)
  return from > 0 ? `resumed at ${formatBytes(from)} of ${formatBytes(totalBytes)}` : 'began again'
}

/** The client proxy's own port, unless something listens there, such as an agent of this machine. */
async function usualOrFreePort(): Promise<number> {
  for (const port of [9999, 0]) {
    const server = createServer()
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening')
      const address = server.address()
      if (typeof address === 'object' && address !== null) return address.port
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE')) throw error
    } finally {
      server.close()
    }
  }
  throw new Error('There is no free port.')
}

async function startAgent(
  cluster: KubeSim,
  { llamaServer, hubEndpoint, mlxLm }: { llamaServer: string; hubEndpoint: string; mlxLm: string | undefined },
): Promise<HostedAgent> {
  const kubeconfig = join(folder, 'kubeconfig')
  await writeFile(kubeconfig, cluster.kubeconfig())
  const stateDir = join(folder, 'state')
  await mkdir(stateDir, { mode: 0o700 })
  const settings = agentSettings.parse({
    kubeconfig,
    namespace: 'default',
    modelStore: join(folder, 'models'),
    allowedModelRoots: [folder],
    allowedDownloadHosts: ['127.0.0.1', 'localhost'],
    stateDir,
    llamaServer,
    mlxLm,
    hubEndpoint,
    port: 0,
    clientPort: await usualOrFreePort(),
    listen: 'gateway',
    applePowerEnabled: true,
    applePowerIntervalMs: 500,
    logLevel: process.env['LOG_LEVEL'] ?? 'error',
  })
  const result = await hostAgent({
    settings,
    platform: hostPlatform(),
    version: 'demo',
    env: process.env,
    temporaryDir: tmpdir(),
    windowFolder: join(import.meta.dirname, '../out/renderer'),
    gateway: { temporaryDir: tmpdir(), command: () => Promise.resolve([process.execPath, agentProgram]) },
    powerTrial: { platform: 'darwin', source: samplePower },
    log: createLog({ level: settings.logLevel, format: settings.logFormat }),
  })
  if (!result.ok) throw new Error(result.message)
  stack.defer(async () => {
    await result.hosted.stop()
  })
  return result.hosted
}
