import { execa } from 'execa'
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import type { ServiceView } from '../../src/contract/service.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { writeMlxModel } from '../support/mlx-writer.ts'
import { createNetworkNamespace } from '../support/network-namespace.ts'
import { missingNetworkNamespaces, skipWhen, useLlamaServer, useMlxLm } from '../support/skip.ts'

const controlPlane = inject('controlPlane')
const llamaServer = useLlamaServer()
const mlxLm = useMlxLm()
skipWhen('missing' in controlPlane ? controlPlane.missing : undefined)

const body = (model: string) => JSON.stringify({ model, max_tokens: 2, messages: [{ role: 'user', content: 'hello' }] })

const routerShape = z.looseObject({
  spec: z.looseObject({
    backends: z.array(z.looseObject({ inferenceServiceRef: z.looseObject({ name: z.string() }) })),
  }),
})
const serviceShape = z.looseObject({
  spec: z.looseObject({ ports: z.array(z.looseObject({ name: z.string(), port: z.number() })) }),
})
const endpointShape = z.looseObject({
  spec: z.looseObject({ endpoint: z.looseObject({ port: z.number() }).optional() }),
})

/** Where LLMKube's router proxy finds the backends of a ModelRouter: at the Service of each InferenceService and its `spec.endpoint.port`. */
async function routerBackends(
  world: AgentWorld,
  services: readonly string[],
): Promise<{ url: string; host: string }[]> {
  const apiVersion = 'inference.llmkube.dev/v1alpha1'
  const backends = services.map((name) => ({ name, inferenceServiceRef: { name } }))
  const made = await world.admin.create({
    apiVersion,
    kind: 'ModelRouter',
    metadata: { name: 'router' },
    spec: { backends },
  })
  return Promise.all(
    routerShape.parse(made).spec.backends.map(async ({ inferenceServiceRef: { name } }) => {
      const service = await world.admin.get({ apiVersion, kind: 'InferenceService', metadata: { name } })
      const port = endpointShape.parse(service).spec.endpoint?.port ?? 8080
      const { ports } = serviceShape.parse(await world.service(name)).spec
      expect(ports).toContainEqual(expect.objectContaining({ name: 'http', port }))
      const published = await world.published(name)
      const host = `${name}.${world.namespace}.svc.cluster.local:${port}`
      return { url: `http://${published?.address}:${published?.port}`, host }
    }),
  )
}

describe('a GGUF and an MLX model on one agent', () => {
  skipWhen(missingNetworkNamespaces())

  test('each by its format: both answer the cluster and this machine, outlive the agent with their processes, are evicted and brought back, and deleted alone', async () => {
    if ('missing' in controlPlane) return
    await using other = await createNetworkNamespace()
    await using world = await AgentWorld.open(controlPlane.connection)
    const gguf = path.join(world.folder, 'lent', 'tiny.gguf')
    const mlx = path.join(world.folder, 'lent', 'mlx')
    await mkdir(path.join(world.folder, 'lent'))
    await writeMlxModel(mlx)
    await writeLlamaGguf(gguf)
    const clientPort = await freePort()
    const file = await writeKubeconfig(path.join(world.folder, 'kubeconfig'), controlPlane.connection)
    const kubeconfig = await readFile(file, 'utf8')
    const start = () =>
      AgentProcess.start({
        folder: path.join(world.folder, 'agent'),
        kubeconfig,
        args: [
          ...['--namespace', world.namespace, '--allowed-model-roots', path.join(world.folder, 'lent')],
          ...['--llama-server', llamaServer, '--mlx-lm-bin', mlxLm, '--host-ip', other.here],
          ...['--client-port', String(clientPort)],
        ],
      })
    const asked = async (service: string, { port = 0 }: { readonly port?: number | undefined }) => {
      const url = `http://${other.here}:${port}/v1/chat/completions`
      const [command, ...args] = other.enter(['curl', '-sS', '--max-time', '60', '-d', body(service), url])
      const here = await fetch(`http://127.0.0.1:${clientPort}/v1/chat/completions`, {
        ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: body(service) },
      })
      const [there, text] = [(await execa(command, args)).stdout, await here.text()]
      return [there, text].map((answer) => (JSON.parse(answer) as { object?: string }).object)
    }
    const answers = ['chat.completion', 'chat.completion']

    await using first = await start()
    await world.apply('words', { source: gguf })
    await world.applyModel('apples', { source: mlx, format: 'mlx' })
    await world.applyService('apples')
    const [words, apples] = [await first.service('words', 'ready'), await first.service('apples', 'ready')]
    expect([await asked('words', words), await asked('apples', apples)]).toEqual([answers, answers])
    expect([words, apples]).toMatchObject([
      { runtime: 'llama-server', runtimeFrom: 'spec.runtime' },
      { runtime: 'mlx-lm', runtimeFrom: 'the format mlx of its Model' },
    ])
    const said = `Served by mlx-lm, chosen by ${apples.runtimeFrom}.`
    await eventually(async () => (await world.conditionMessage('apples'))?.endsWith(said) === true, { what: said })
    expect(await world.published('apples')).toEqual({ address: other.here, port: apples.port, ready: true })
    const routed = await routerBackends(world, ['words', 'apples'])
    const askedByRouter = routed.map(async ({ url, host }) => {
      const ask = async (path: string, ...more: string[]) => {
        const options = ['-sS', '--max-time', '60', '-w', '%{http_code}', '-H', `host: ${host}`]
        const [command, ...args] = other.enter(['curl', ...options, ...more, `${url}${path}`])
        return (await execa(command, args)).stdout
      }
      const [health, chat] = [await ask('/health'), await ask('/v1/chat/completions', '-d', body('any-name'))]
      return [health.slice(-3), chat.slice(-3), chat.includes('chat.completion')]
    })
    expect(await Promise.all(askedByRouter)).toEqual(Array(2).fill(['200', '200', true]))
    // Whoever reached mlx-lm itself could have it load anything: only the gateway does.
    const models = other.enter([
      'curl',
      '-s',
      '-w',
      '%{http_code}',
      '-o',
      '/dev/null',
      `http://${other.here}:${apples.port}/v1/models`,
    ])
    expect((await execa(models[0], models.slice(1))).stdout).toBe('403')

    await first.run('shutdown', '--keep-serving')
    await first.exited
    await using second = await start()
    expect([await second.service('words', 'ready'), await second.service('apples', 'ready')]).toMatchObject([
      { pid: words.pid },
      { pid: apples.pid },
    ])
    expect(await asked('apples', apples)).toEqual(answers)
    const back: Record<string, ServiceView> = {}
    for (const [name, { pid = 0 }] of Object.entries({ words, apples })) {
      const service = `${world.namespace}/${name}`
      expect((await second.run('evict', service)).code).toBe(0)
      await untilGone(pid)
      expect((await second.run('bring-back', service)).code).toBe(0)
      back[name] = await second.service(name, 'ready')
      expect(await asked(name, back[name])).toEqual(answers)
    }
    await world.deleteService('apples')
    await untilGone(back['apples']?.pid ?? 0)
    expect((await second.service('words', 'ready')).pid).toBe(back['words']?.pid)
  })
})
