import { execa } from 'execa'
import { describe, expect, test } from 'vitest'
import type { HostInterface } from '../../src/agent-core/platform/platform.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import { KubeProxyStandIn } from '../support/kube-proxy-stand-in.ts'
import { createNetworkNamespace, type NetworkNamespace } from '../support/network-namespace.ts'
import { missingNetworkNamespaces, skipWhen } from '../support/skip.ts'

const api = useRealApiServer()

const has = (name: string, address: string): HostInterface => ({
  ...{ name, address, netmask: '255.255.255.0' },
  ...{ family: 'IPv4', internal: false },
})

async function completionBy(host: NetworkNamespace, url: string): Promise<{ status: number; text: string }> {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 2 })
  const [command, ...args] = host.enter([
    ...['curl', '-sS', '--max-time', '10', '-w', '%{http_code}', '-d', body, `${url}/v1/chat/completions`],
  ])
  const { stdout } = await execa(command, args, { reject: false })
  return { status: Number(stdout.slice(-3)), text: stdout.slice(0, -3) }
}

describe('a Pod on a node that comes by the ClusterIP, the API server being at loopback', () => {
  skipWhen(missingNetworkNamespaces())

  test.each([
    [
      'in a virtual machine of this host, which has no other network',
      'bridge100',
      /bridge100 is a network of virtual machines/,
    ],
    ['on another host of the local network', 'en0', /en0 is the first local network/],
  ])('%s gets a completion, and another one after the address has changed', async (_where, name, why) => {
    await using node = await createNetworkNamespace()
    await using world = await AgentWorld.open(api().connection)
    let interfaces = [has('lo0', '127.0.0.1'), has('utun4', '100.101.102.103'), has(name, node.here)]
    const agent = await world.startAgent({ settings: { hostIp: undefined }, interfaces: () => interfaces })
    expect(agent.snapshot.host).toMatchObject({ address: node.here, message: expect.stringMatching(why) as string })
    await world.applyModel('tiny')
    await world.applyService('tiny')
    await agent.untilReady('tiny')
    await using proxy = await KubeProxyStandIn.start(node, world.admin, 'tiny')
    expect((await proxy.sync()).split(':')[0]).toBe(node.here)
    expect(await completionBy(node, proxy.url)).toMatchObject({ status: 200 })

    const next = await node.alsoHere()
    interfaces = [has('lo0', '127.0.0.1'), has(name, next)]
    await eventually(async () => (await proxy.sync()).split(':')[0] === next, { timeoutMs: 20_000 })
    expect(await completionBy(node, proxy.url)).toMatchObject({ status: 200 })
  })
})
