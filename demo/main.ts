import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createLog } from '../src/agent-core/observability/log.ts'
import { hostPlatform } from '../src/agent-core/platform/host.ts'
import { agentSettings } from '../src/agent-core/settings/settings.ts'
import { renderStatus } from '../src/cli/status-verbs.ts'
import { formatBytes } from '../src/contract/format.ts'
import { hostAgent, type HostedAgent } from '../src/serve/host-agent.ts'
import { startControllerStandIn } from '../test/support/controller-stand-in/controller-stand-in.ts'
import { startFakeHub, type FakeHub } from '../test/support/fake-hub.ts'
import { writeLlamaGguf } from '../test/support/gguf-writer.ts'
import { freePort } from '../test/support/free-port.ts'
import { KubeSim } from '../test/support/kube-sim/kube-sim.ts'
import { lookAt, tellFigures } from './figures.ts'
import { sampleObjects } from './objects.ts'
import { demoParts } from './parts.ts'
import { askAt, askLikeAPod } from './pod.ts'
import { samplePower } from './sample-power.ts'
import { tellSteps, tellWhyItWaits } from './steps.ts'

const runsOnce = process.env['ONCE'] === '1'
const sampleServer = join(import.meta.dirname, '../test/support/sample-servers/sample-server.cjs')
const agentProgram = join(import.meta.dirname, '../src/cli/metal-agent.ts')
/** Slow enough to be seen. */
const downloadSeconds = 5
/** The part of the file after which the Hub's connection is broken off, so that another has to fetch the rest. */
const brokenOffAfter = 0.4
const randomShape = { blocks: 4, embedding: 256, heads: 8, kvHeads: 4, feedForward: 1024 }
/** Of a 7B model as Llama 2 was: its cache takes half a megabyte for each token. */
const greedyShape = { blocks: 32, embedding: 4096, heads: 32, kvHeads: 32, feedForward: 11_008, context: 4096 }
const greedyKvBytesPerToken = 2 * 2 * greedyShape.blocks * greedyShape.embedding
/** The most that the CRD allows. */
const longestContext = 2_097_152
const question = 'What is a GPU good for? Answer in one sentence.'
const anotherQuestion = 'What is the capital of France? Answer in one sentence.'

const say = (text: string): void => void process.stdout.write(`${text}\n`)

const folder = await mkdtemp(join(tmpdir(), 'metalbar-demo-'))
const closed = Promise.withResolvers<undefined>()
// Whoever reads it has gone, such as `head`.
process.stdout.on('error', () => closed.resolve(undefined))
const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM'), closed.promise])
const stack = new AsyncDisposableStack()
stack.defer(() => rm(folder, { recursive: true, force: true }))
let exitCode = 0
try {
  const isInterrupted = await Promise.race([run().then(() => false), interrupted.then(() => true)])
  if (!runsOnce && !isInterrupted) await interrupted
} catch (error) {
  say(`\nThe demo cannot continue: ${error instanceof Error ? error.message : String(error)}`)
  exitCode = 1
}
if (!runsOnce) say('\nStopping: withdraw, let requests finish, stop the servers.')
await stack.disposeAsync()
process.exit(exitCode)

async function run(): Promise<void> {
  say('Metalbar demo: a simulated cluster, a real agent, real processes.\n')
  const { engine, model } = await demoParts(say)
  say(
    'path' in engine
      ? `Engine    llama.cpp's server (${engine.origin})`
      : `Engine    a sample that makes up its answers: ${engine.missing}`,
  )
  const weights = 'path' in model ? model.path : join(folder, 'random.gguf')
  if ('missing' in model) await writeLlamaGguf(weights, { ...randomShape, seed: 2 })
  const { size } = await stat(weights)
  say(
    'path' in model
      ? `Model     SmolLM2-135M-Instruct, ${formatBytes(size)} (${model.origin})`
      : `Model     random weights, ${formatBytes(size)}: ${model.missing}`,
  )
  say(`Power     ${samplePower.name}`)
  const hub = stack.use(await startFakeHub())
  await hub.addRepo('demo/smol', { 'smol.gguf': { file: weights } })
  hub.cdn.throttle = size / downloadSeconds
  hub.cdn.drops.push(Math.round(size * brokenOffAfter))

  const cluster = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: cluster.connection() }))
  say(`Cluster   simulated, with a stand-in for LLMKube's controller, at ${cluster.url}`)

  const hosted = await startAgent(cluster, {
    llamaServer: 'path' in engine ? engine.path : sampleServer,
    hubEndpoint: hub.endpoint,
  })
  const { door } = hosted
  const { host } = door.get()
  say(`Agent     ${host.displayName}: ${host.message}\n`)

  const finished = tellSteps(door, ['smol'], say)
  say('$ kubectl apply -f smol.yaml')
  for (const object of sampleObjects('smol', 'hf://demo/smol')) cluster.create(object)
  await finished
  say(
    `\nThe Hub broke off one connection, and the agent fetched the rest from ${formatBytes(resumedAt(hub.requests))} on.`,
  )

  using _look = await lookAt(door, 'smol')
  const isRandom = 'path' in engine && 'missing' in model
  say(`\nA Pod asks http://smol:8080/v1/chat/completions "${question}"`)
  const answer = await askLikeAPod(cluster, 'smol', { question, isRandom })
  say(`  Service smol, EndpointSlice: ${answer.url}, where the gateway passes it on to the server on 127.0.0.1`)
  say(`  ${answer.content}`)
  const proxy = door.get().host.clientProxy
  if (proxy === undefined) throw new Error('The client proxy does not listen.')
  say(`\nA program of this machine asks ${proxy}/v1/chat/completions for the model smol`)
  say(`  ${await askAt(proxy, 'smol', { question: anotherQuestion, isRandom })}`)
  await tellFigures(door, 'smol', say)

  const greedy = join(folder, 'greedy.gguf')
  await writeLlamaGguf(greedy, { ...greedyShape, weightType: 'Q4_0', weights: 'hole' })
  const contextSize = contextBeyond(door.get().memory?.budgetBytes)
  say(`\n$ kubectl apply -f greedy.yaml   (a 7B model with a context of ${contextSize} tokens)`)
  for (const object of sampleObjects('greedy', greedy, { contextSize })) cluster.create(object)
  await tellWhyItWaits(door, 'greedy', say)

  say(
    `\n$ metal-agent status\n${renderStatus(door.get(), { columns: process.stdout.columns, colour: process.stdout.isTTY, unicode: true })}`,
  )
  await tellWhatIsNext(hosted)
}

async function tellWhatIsNext(hosted: HostedAgent): Promise<void> {
  const canAsk = !runsOnce && process.stdin.isTTY && process.stdout.isTTY
  const again = runsOnce ? 'run it without ONCE=1, which keeps it running' : undefined
  say(
    `The window:        ${again ?? (canAsk ? 'press Enter, and it opens in your browser' : await hosted.openWindow())}`,
  )
  say('Your own cluster:  make build && bin/metal-agent --namespace default')
  say(`To stop:           ${runsOnce ? 'it stops now' : 'press Ctrl-C'}`)
  if (!canAsk) return
  createInterface({ input: process.stdin }).on('line', () => void openWindow(hosted))
}

/** Says the address as well, which works once, within two minutes: a machine that is used over the network has no browser. */
async function openWindow(hosted: HostedAgent): Promise<void> {
  const url = await hosted.openWindow()
  say(url)
  execFile(process.platform === 'darwin' ? 'open' : 'xdg-open', [url], (error) => {
    if (error) say('No browser could be opened here: open this address yourself.')
  })
}

/** A model whose cache alone takes twice the budget of the demonstration. */
function contextBeyond(budgetBytes = Infinity): number {
  const steps = Math.ceil((2 * budgetBytes) / greedyKvBytesPerToken / 1024)
  return Math.min(longestContext, 1024 * steps)
}

/** Where the last connection began that the Hub saw. */
function resumedAt(requests: FakeHub['requests']): number {
  const ranges = requests.flatMap(({ server, headers }) => (server === 'cdn' ? [headers.range ?? ''] : []))
  return Number(/^bytes=(\d+)-/.exec(ranges.at(-1) ?? '')?.[1] ?? 0)
}

async function startAgent(
  cluster: KubeSim,
  { llamaServer, hubEndpoint }: { llamaServer: string; hubEndpoint: string },
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
    hubEndpoint,
    port: 0,
    clientPort: await freePort(),
    ingressPort: await freePort(),
    listen: 'gateway',
    applePowerEnabled: true,
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
    log: createLog({ level: settings.logLevel }),
  })
  if (!result.ok) throw new Error(result.message)
  stack.defer(async () => {
    await result.hosted.stop()
  })
  return result.hosted
}
