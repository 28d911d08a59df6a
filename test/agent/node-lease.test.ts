import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import path from 'node:path'
import { loadAll } from 'js-yaml'
import { describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { leaseNameOf } from '../../src/agent-core/publishing/lease-content.ts'
import type { AgentSnapshot } from '../../src/contract/snapshot.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import type { Rule } from '../support/kube-sim/access.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { skipWhen } from '../support/skip.ts'

const controlPlane = inject('controlPlane')
skipWhen('missing' in controlPlane ? controlPlane.missing : undefined)

const leaseShape = z.object({
  metadata: z.looseObject({ uid: z.string(), annotations: z.record(z.string(), z.string()) }),
  spec: z.looseObject({ holderIdentity: z.string(), renewTime: z.string() }),
})

async function leaseIn(world: AgentWorld, name: string, namespace = world.namespace) {
  const metadata = { name, namespace }
  const found = await world.admin.get({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata })
  return found && leaseShape.parse(found)
}

const aboutLease = ({ notices }: AgentSnapshot) => notices.filter((notice) => notice.includes('Lease'))

describe('an agent that is a process', () => {
  test('tells the cluster what it can run; killed it leaves that to the next one, and stopped in good order it takes it away', async () => {
    if ('missing' in controlPlane) return
    await using world = await AgentWorld.open(controlPlane.connection)
    const file = await writeKubeconfig(path.join(world.folder, 'kubeconfig'), controlPlane.connection)
    const kubeconfig = await readFile(file, 'utf8')
    const start = (folder: string) =>
      AgentProcess.start({
        ...{ folder: path.join(world.folder, folder), kubeconfig },
        args: [...['--namespace', world.namespace], ...['--llama-server', sampleServerPath]],
      })
    const name = leaseNameOf(hostname())
    const lease = () => leaseIn(world, name, world.namespace)
    const renewedAfter = (before: string) =>
      eventually(async () => {
        const found = await lease()
        return found !== undefined && found.spec.renewTime !== before && found
      })

    await using killed = await start('first')
    await world.apply('tiny')
    await killed.service('tiny', 'ready')
    const first = await renewedAfter('')
    const { host, cluster } = await killed.snapshot()
    expect(cluster.lease).toEqual({ namespace: world.namespace, name })
    expect(first).toMatchObject({
      metadata: {
        annotations: {
          'metalbar.dev/host': host.displayName,
          'metalbar.dev/runtimes': expect.stringContaining(
            '{"name":"llama-server","version":"0 (sample)","formats":["gguf"]}',
          ) as unknown,
        },
      },
      spec: { holderIdentity: host.nodeId },
    })
    killed.signal('SIGKILL')
    await killed.exited
    expect(await lease()).toEqual(first)

    await using next = await start('first')
    await next.service('tiny', 'ready')
    const taken = await renewedAfter(first.spec.renewTime)
    expect(taken.metadata.uid).toBe(first.metadata.uid)
    expect(JSON.parse(taken.metadata.annotations['metalbar.dev/models'] ?? '')).toMatchObject([
      { name: 'tiny', digest: expect.stringMatching(/^(sha256|files):[0-9a-f]{64}$/) as unknown },
    ])

    await using namesake = await start('second')
    const told = await namesake.shows((snapshot) => aboutLease(snapshot).length > 0 && snapshot, 'a notice')
    expect(aboutLease(told)).toEqual([
      expect.stringContaining(
        `The Lease ${world.namespace}/${name} is held by another agent, ${host.nodeId}: give one of`,
      ),
    ])
    await namesake.run('shutdown')
    await namesake.exited
    expect((await lease())?.spec.holderIdentity).toBe(host.nodeId)

    await next.run('shutdown')
    await next.exited
    expect(await lease()).toBeUndefined()
  })
})

describe('an agent in this process', () => {
  const api = useRealApiServer()

  test('that moves to another namespace takes its Lease along', async () => {
    await using world = await AgentWorld.open(api().connection)
    const other = await world.createNamespace()
    const agent = await world.startAgent({ name: 'mover' })
    await eventually(() => leaseIn(world, 'metalbar-mover'))
    await agent.command({ name: 'updateSettings', settings: { namespace: other } })
    const there = await eventually(() => leaseIn(world, 'metalbar-mover', other))
    expect(there.metadata.annotations).toMatchObject({ 'metalbar.dev/host': 'mover' })
    expect(await leaseIn(world, 'metalbar-mover')).toBeUndefined()
    await agent.leave()
    expect((await leaseIn(world, 'metalbar-mover', other))?.metadata.uid).toBe(there.metadata.uid)
  })

  test('that may write no Lease serves, and says so once', async () => {
    const { namespace } = api()
    await using world = await AgentWorld.open(api().connection, { namespace })
    const roles = z
      .array(z.object({ metadata: z.object({ name: z.string() }), rules: z.array(z.custom<Rule>()) }))
      .parse(loadAll(await readFile('assets/rbac.yaml', 'utf8')))
    const needed = roles.find(({ metadata }) => metadata.name === 'metalbar-agent')?.rules ?? []
    const { connection } = await api().restricted(needed)
    const { agent } = await world.serving('tiny', { connection })
    await eventually(() => aboutLease(agent.snapshot).length > 0)
    expect(aboutLease(agent.snapshot)).toEqual([
      expect.stringMatching(
        /^The cluster does not know what this machine can run; models are served as usual\. .*"metal-agent rights" prints/,
      ),
    ])
    expect(agent.log.warnings.filter(({ message }) => message === 'lease not written')).toHaveLength(1)
    expect((await world.published('tiny'))?.ready).toBe(true)
  })
})
