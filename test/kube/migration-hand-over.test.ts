import { join } from 'node:path'
import { execa } from 'execa'
import { describe, expect, test } from 'vitest'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { inferenceServiceSpec, parseEndpointSlice, resources } from '../../src/agent-core/kube/resources.ts'
import { askActivity } from '../../src/agent-core/servers/probe.ts'
import { judgeClaim } from '../../src/agent-core/publishing/claim.ts'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { publishedOf } from '../../src/agent-core/publishing/objects.ts'
import { Heartbeats, type FoundService } from '../../src/installation/migration/cluster.ts'
import { giveUp } from '../../src/installation/migration/take-over.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { sampleScriptArgs, sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const old = '2026-01-01T00:00:00Z'

describe('a service that changes hands', () => {
  const world = useRealApiServer()

  /** As the Go agent writes it; `claim` is one of ours. */
  async function slice(name: string, claim?: object) {
    const { namespace, connection } = world()
    await using folder = await temporaryFolder()
    const file = await writeKubeconfig(join(folder.dir, 'kubeconfig'), connection)
    const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
    const annotations = {
      'llmkube.ai/agent-heartbeat': old,
      'example.com/kept': 'yes',
      ...(claim && { 'metalbar.dev/claim': JSON.stringify(claim) }),
    }
    const labels = {
      'llmkube.ai/managed-by': 'metal-agent',
      'llmkube.ai/inference-service': name,
      'kubernetes.io/service-name': name,
    }
    await api.create(resources.endpointSlices, namespace, {
      metadata: { name, namespace, labels, annotations },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['192.0.2.10'], conditions: { ready: true } }],
      ports: [{ name: 'http', port: 5001, protocol: 'TCP' }],
    })
    const published = { address: '192.0.2.10', port: 5001, ready: true }
    const spec = inferenceServiceSpec.parse({ modelRef: name })
    const service: FoundService = {
      namespace,
      name,
      spec,
      published,
      isRelayed: false,
      elsewhere: undefined,
      isMoved: false,
    }
    const now = async () => parseEndpointSlice(await api.get(resources.endpointSlices, namespace, name))
    return { api, service, now }
  }

  test('is withdrawn, and free for our agent at once', async () => {
    const { api, service, now } = await slice('given')
    await giveUp({ service, server: undefined }, api, hostPlatform())
    const left = await now()
    const target = { namespace: service.namespace, name: 'given', uid: 'x', endpointPort: undefined }
    const claim = judgeClaim(left, { self: 'us', target, last: undefined, silentMs: 0, overwrites: 0 })
    expect([claim.kind, left.metadata.annotations['example.com/kept']]).toEqual(['released', 'yes'])
  })

  test('is withdrawn while its server still answers, and the server ends only then', async () => {
    const { api, service, now } = await slice('busy')
    const port = await freePort()
    const args = ['--model', 'm.gguf', '--port', String(port), '--metrics', ...sampleScriptArgs({ tokenMs: 50 })]
    const server = execa(sampleServerPath, args, { reject: false })
    const platform = hostPlatform()
    const { pid = 0 } = server
    const { startTime = '' } = (await platform.process(pid)) ?? {}
    await eventually(async () => (await fetch(`http://127.0.0.1:${port}/health`)).ok, { what: 'the server ready' })
    const answer = fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 20 }),
    }).then(async (response) => {
      const said: unknown = await response.json()
      return { said, slice: publishedOf(await now()), isRunning: await platform.isRunning({ pid, startTime }) }
    })
    await eventually(
      async () => {
        const activity = await askActivity(port, 1_000)
        return activity.kind === 'counted' && activity.requests === 1
      },
      { what: 'the request in flight' },
    )
    await giveUp({ service, server: { pid, startTime, port } }, api, platform)
    expect(await answer).toMatchObject({ said: { choices: [{}] }, slice: { ready: false }, isRunning: true })
    expect([await platform.isRunning({ pid, startTime }), (await server).exitCode]).toEqual([false, 0])
  })

  test('has heartbeats written for its paused agent until then, and none once our agent holds it', async () => {
    const waiting = await slice('waiting')
    const held = await slice('held', { node: 'us', epoch: 1, heartbeat: old })
    const heartbeatOf = async ({ now }: typeof waiting) =>
      (await now()).metadata.annotations['llmkube.ai/agent-heartbeat']
    const said: string[] = []
    await using heartbeats = new Heartbeats(
      waiting.api,
      [waiting.service, held.service],
      (one) => void said.push(one),
      20,
    )
    await eventually(async () => (await heartbeatOf(waiting)) !== old)
    await heartbeats.leave(waiting.service)
    expect([await heartbeatOf(held), said]).toEqual([old, []])
  })
})
