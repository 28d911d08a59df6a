import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { socketPathFor } from '../../src/agent-core/state/socket-path.ts'
import { readIfThere } from '../../src/agent-core/util/files.ts'
import type { TraceKind } from '../../src/contract/uninstall.ts'
import { kindInStateFolder } from '../../src/installation/uninstall/file-parts.ts'
import { connectToAgent } from '../../src/serve/client/agent-client.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer } from '../support/file-server.ts'
import { freePort } from '../support/free-port.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { runVerb } from '../support/run-verb.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { treeOf } from '../support/tree-of.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const listing = z.object({
  serving: z.array(z.string()),
  chosen: z.array(z.string()),
  traces: z.array(z.object({ kind: z.string(), places: z.array(z.object({ path: z.string() })) })),
})

/** A home folder of a person's own, and an agent that was started there without any place being named. */
async function world() {
  await using stack = new AsyncDisposableStack()
  const { dir: folder } = stack.use(await temporaryFolder())
  const home = path.join(folder, 'home')
  for (const usual of ['.local/state', '.local/share', '.kube', 'Documents']) {
    await mkdir(path.join(home, usual), { recursive: true })
  }
  const sim = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: sim.connection() }))
  const files = stack.use(await startFileServer())
  await writeLlamaGguf(path.join(folder, 'tiny.gguf'))
  const { url } = files.serve('/tiny.gguf', await readFile(path.join(folder, 'tiny.gguf')))
  const metadata = { name: 'tiny' }
  const spec = { source: url, format: 'gguf', hardware: { accelerator: 'metal' } }
  sim.create({ apiVersion, kind: 'Model', metadata, spec })
  sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: 'tiny' } })
  await writeFile(path.join(home, '.kube/config'), sim.kubeconfig())
  await writeFile(path.join(home, 'Documents/mine.txt'), 'mine')
  const before = await treeOf(home)
  const stateDir = path.join(home, '.local/state/metalbar')
  const args = ['--llama-server', sampleServerPath, '--port', '0', '--client-port', '0', '--host-ip', '192.0.2.10']
  const flags = [...args, '--allowed-download-hosts', '127.0.0.1', '--log-file', path.join(home, 'metal-agent.log')]
  const ask = async <T>(question: (client: Awaited<ReturnType<typeof connectToAgent>>) => Promise<T>): Promise<T> => {
    await using client = await connectToAgent({ socketPath: socketPathFor(stateDir, tmpdir()), stateDir })
    return await question(client)
  }
  const verb = (...words: string[]) => runVerb(words, home, { env: { HOME: home, PATH: path.join(folder, 'bin') } })
  const serves = () =>
    eventually(
      async () => {
        const { services } = await ask((client) => client.snapshot())
        return services.find(({ name, state }) => name === 'tiny' && state === 'ready')
      },
      { what: 'tiny served' },
    )
  const owned = stack.move()
  const start = async (...more: string[]) =>
    owned.use(await AgentProcess.start({ folder, usualFlags: false, args: [...flags, ...more] }))
  const dispose = () => owned.disposeAsync()
  return { home, stateDir, before, sim, start, ask, verb, serves, [Symbol.asyncDispose]: dispose }
}

type World = Awaited<ReturnType<typeof world>>

const published = ({ sim }: World) =>
  ['endpointslices', 'endpoints', 'services'].filter((resource) => sim.get({ resource, name: 'tiny' }) !== undefined)

test('what an agent writes is in the table, and after an uninstall of everything the home folder is as it was before', async () => {
  await using there = await world()
  const agent = await there.start()
  await there.serves()
  const done = [
    await there.verb('settings', 'set', 'memory-fraction', '0.5'),
    await there.verb('stop', 'tiny', '--here'),
  ]
  expect(done.map(({ code }) => code)).toEqual([0, 0])
  await there.verb('start', 'tiny')
  await there.serves()
  expect(published(there)).toEqual(['endpointslices', 'endpoints', 'services'])

  const names = await readdir(there.stateDir)
  expect(names.filter((name) => kindInStateFolder(name) === undefined)).toEqual([])
  const kinds = new Set<TraceKind | undefined>(names.map(kindInStateFolder))
  expect([...kinds].sort()).toEqual(['logs', 'settings', 'state'])
  const places = ['.local/state/metalbar', '.local/share/metalbar/models', 'metal-agent.log']
  const now = (await treeOf(there.home)).filter((line) => !there.before.includes(line))
  const elsewhere = now.filter(
    (line) => !places.some((place) => line.startsWith(place) || `${place}/`.startsWith(line)),
  )
  expect(elsewhere).toEqual([])

  const dry = await there.verb('uninstall', '--everything', '--dry-run', '--json')
  const listed = listing.parse(JSON.parse(dry.stdout))
  expect(listed.serving).toEqual(['default/tiny'])
  expect(listed.chosen).not.toContain('models')
  expect(listed.traces.map(({ kind }) => kind)).toEqual(
    ['cluster', 'models', 'logs', 'settings', 'state', 'servers'].sort(byOrder),
  )

  const refused = await there.verb('uninstall', '--everything')
  expect([refused.code, refused.stdout]).toEqual([
    4,
    expect.stringContaining('One model serves: default/tiny.') as unknown,
  ])
  await there.serves()

  const said = await there.verb('uninstall', '--everything', '--yes', '--models')
  expect([said.code, said.stdout.match(/LEFT/)]).toEqual([0, null])
  expect(await agent.exited).toEqual({ code: 0, signal: null })
  expect(await treeOf(there.home)).toEqual(there.before)
  expect(published(there)).toEqual([])
  expect(there.sim.get({ resource: 'inferenceservices', name: 'tiny' })).toBeDefined()
})

const order = ['servers', 'cluster', 'models', 'logs', 'settings', 'state']
const byOrder = (a: string, b: string): number => order.indexOf(a) - order.indexOf(b)

test('models stay unless they are asked for, and servers that a killed agent left are ended', async () => {
  await using there = await world()
  const agent = await there.start()
  const { pid = 0 } = await there.serves()
  agent.signal('SIGKILL')
  await agent.exited
  expect(isRunning(pid)).toBe(true)
  const said = await there.verb('uninstall', '--everything', '--yes')
  expect([said.code, said.stdout.match(/LEFT/)]).toEqual([0, null])
  await eventually(() => !isRunning(pid), { what: 'the server gone' })
  const left = (await treeOf(there.home)).filter((line) => !there.before.includes(line))
  const files = left.filter((line) => !line.endsWith('/')).map((line) => line.replace(/ [0-9a-f]+$/, ''))
  // The kill may have met the agent as it wrote the record.
  expect(files.filter((file) => !/\.json\.\d+$/.test(file))).toEqual([
    expect.stringMatching(/models\/@\/tiny\/[0-9a-f]{16}\/model\.metalbar\.json$/),
    expect.stringMatching(/models\/@\/tiny\/[0-9a-f]{16}\/tiny\.gguf$/),
  ])
  expect(published(there)).toEqual([])
})

test.each<[string, (gateway: number, socket: string) => unknown]>([
  ['answers', () => undefined],
  ['hangs', (pid) => process.kill(pid, 'SIGSTOP')],
  ['has lost its socket', (_pid, socket) => rm(socket)],
])('the gateway that a killed agent left is ended, also one that %s', async (_what, happens) => {
  await using there = await world()
  const agent = await there.start('--client-port', String(await freePort()))
  await there.serves()
  const gateway = Number(await eventually(() => readIfThere(path.join(there.stateDir, 'gateway.pid'))))
  agent.signal('SIGKILL')
  await agent.exited
  await happens(gateway, socketPathFor(there.stateDir, tmpdir(), 'gateway.sock'))
  const said = await there.verb('uninstall', '--everything', '--yes')
  expect([said.code, said.stdout.match(/LEFT.*/)]).toEqual([0, null])
  expect(said.stdout).toContain('Model servers that an agent left running: Removed.')
  await eventually(() => !isRunning(gateway), { what: 'the gateway gone' })
})

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
