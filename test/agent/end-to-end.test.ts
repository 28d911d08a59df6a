import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { socketPathFor } from '../../src/agent-core/state/socket-path.ts'
import type { ServiceView } from '../../src/contract/service.ts'
import { connectToAgent } from '../../src/serve/client/agent-client.ts'
import { AgentWorld, commandLineOf, hostIp, untilGone } from '../support/agent-world.ts'
import type { ClusterConnection } from '../support/control-plane/admin-client.ts'
import { ApiServer } from '../support/control-plane/control-plane.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer } from '../support/file-server.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { createNetworkNamespace } from '../support/network-namespace.ts'
import { missingNetworkNamespaces, skipWhen, useLlamaServer } from '../support/skip.ts'

/** Where the agent and its servers run, seen from the cluster. */
interface Place {
  readonly connection: ClusterConnection
  /** Where the model is downloaded from. */
  readonly filesHost: string
  readonly flags: readonly string[]
  readonly enter: (command: readonly string[]) => [string, ...string[]]
  /** How a published address is reached from the cluster's side. */
  readonly reach: (published: { readonly address: string; readonly port: number }) => string
}

const controlPlane = inject('controlPlane')
const llamaServer = useLlamaServer()
const agentProgram = join(import.meta.dirname, '../../src/cli/metal-agent.ts')
skipWhen('missing' in controlPlane ? controlPlane.missing : undefined)

describe('apply, ask, change, stop, delete: the real API server, llama-server and command', () => {
  test('over loopback', async () => {
    if ('missing' in controlPlane) return
    await tellTheStory({
      connection: controlPlane.connection,
      filesHost: '127.0.0.1',
      // No client can connect to a documentation address: the address in the slice stands for this host.
      flags: ['--host-ip', hostIp],
      enter: ([command = '', ...args]) => [command, ...args],
      reach: ({ port }) => `http://127.0.0.1:${port}`,
    })
  })

  describe('from a host of its own', () => {
    skipWhen(missingNetworkNamespaces())
    test('at the very address that the slice names', async () => {
      await using there = await createNetworkNamespace()
      await using server = await ApiServer.start({ address: there.here })
      await tellTheStory({
        connection: server.connection,
        filesHost: there.here,
        flags: [],
        enter: (command) => there.enter(command),
        reach: ({ address, port }) => {
          expect(address).toBe(there.there)
          return `http://${address}:${port}`
        },
      })
    })
  })
})

async function tellTheStory(place: Place): Promise<void> {
  await using world = await AgentWorld.open(place.connection)
  await using files = await startFileServer({ host: place.filesHost })
  const model = join(world.folder, 'tiny.gguf')
  await writeLlamaGguf(model)
  const { url } = files.serve('/tiny.gguf', { file: model })
  await using agent = await startCommand(world, place)

  await world.apply('tiny', { source: url, spec: { contextSize: 256, extraArgs: ['--threads', '1'] } })
  const { pid } = await agent.until('tiny', ({ steps }) => steps.clusterAgrees.status === 'done')
  expect(await world.status('tiny')).toMatchObject({ phase: 'Ready', readyReplicas: 1 })
  await eventually(async () => (await world.condition('tiny')) === 'True Serving')
  expect(await tokensFrom(world, place)).toBe(8)

  await world.patchSpec('tiny', { contextSize: 512 })
  const changed = await agent.until('tiny', (view) => view.state === 'ready' && view.pid !== pid)
  await untilGone(pid)
  expect(await commandLineOf(changed.pid)).toContain('--ctx-size 512')
  expect(await tokensFrom(world, place)).toBe(8)

  await world.patchSpec('tiny', { replicas: 0 })
  await agent.until('tiny', ({ state }) => state === 'stopped')
  await untilGone(changed.pid)
  await world.untilPublishedKinds('tiny', 'Service')

  await world.patchSpec('tiny', { replicas: 1 })
  const again = await agent.until('tiny', ({ state }) => state === 'ready')
  await world.deleteService('tiny')
  await untilGone(again.pid)
  await world.untilPublishedKinds('tiny')
  expect(await agent.stop()).toBe(0)
}

/** Asks what the EndpointSlice names for a completion of eight tokens. */
async function tokensFrom(world: AgentWorld, { reach }: Place): Promise<number> {
  const published = await eventually(async () => {
    const shown = await world.published('tiny')
    return shown?.ready === true ? shown : undefined
  })
  const response = await fetch(`${reach(published)}/completion`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Hello', n_predict: 8, ignore_eos: true, temperature: 0 }),
  })
  expect(response.status).toBe(200)
  return z.looseObject({ tokens_predicted: z.number() }).parse(await response.json()).tokens_predicted
}

type RunningView = ServiceView & { readonly pid: number }

interface RunningCommand extends AsyncDisposable {
  until(name: string, isSo: (view: ServiceView) => boolean): Promise<RunningView>
  /** SIGTERM; answers the exit code. */
  stop(): Promise<number | null>
}

/** `metal-agent` as a process of its own, watched over its socket. */
async function startCommand(
  world: AgentWorld,
  { connection, filesHost, flags, enter }: Place,
): Promise<RunningCommand> {
  const stateDir = join(world.folder, 'state')
  const kubeconfig = await writeKubeconfig(join(world.folder, 'kubeconfig'), connection)
  const [command, ...args] = enter([
    process.execPath,
    agentProgram,
    ...['--kubeconfig', kubeconfig, '--namespace', world.namespace, '--llama-server', llamaServer],
    ...[
      '--state-dir',
      stateDir,
      '--model-store',
      join(world.folder, 'models'),
      '--port',
      '0',
      '--client-port',
      '0',
      ...flags,
    ],
    ...['--allowed-download-hosts', filesHost],
  ])
  const logFile = join(world.folder, 'agent.log')
  const log = openSync(logFile, 'a')
  const child = spawn(command, args, { stdio: ['ignore', log, log] })
  closeSync(log)
  const ended = once(child, 'exit')
  const stop = async (): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM')
      await ended
    }
    return child.exitCode
  }
  const views = async (): Promise<readonly ServiceView[]> => {
    const client = await connectToAgent({ socketPath: socketPathFor(stateDir, tmpdir()), stateDir })
    try {
      return (await client.snapshot()).services
    } finally {
      await client.close()
    }
  }
  return {
    async until(name, isSo) {
      let last = 'not shown'
      const view = await eventually(async () => {
        const found = (await views()).find((one) => one.name === name)
        if (found && isSo(found)) return found
        last = found ? `${found.state} (${found.reason}): ${found.message}` : last
        return undefined
      }).catch(async (cause: unknown) => {
        throw new Error(`${name} is ${last}\n${await readFile(logFile, 'utf8')}`, { cause })
      })
      return { ...view, pid: view.pid ?? 0 }
    },
    stop,
    async [Symbol.asyncDispose]() {
      await stop()
    },
  }
}
