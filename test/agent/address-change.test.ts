import { test } from 'vitest'
import { z } from 'zod'
import type { HostInterface } from '../../src/agent-core/platform/platform.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'

const api = useRealApiServer()

const services = 5

const has = (name: string, address: string): HostInterface => ({
  ...{ name, address, netmask: '255.255.255.0' },
  ...{ family: 'IPv4', internal: name === 'lo0' },
})

const slice = z.object({ endpoints: z.array(z.object({ addresses: z.array(z.string()) })).nullish() })

test(`${services} services are published at another address once this machine has it`, async () => {
  await using world = await AgentWorld.open(api().connection)
  let interfaces = [has('lo0', '127.0.0.1'), has('en0', '192.0.2.20')]
  const agent = await world.startAgent({ settings: { hostIp: undefined }, interfaces: () => interfaces })
  await world.applyModel('tiny')
  const names = Array.from({ length: services }, (_, index) => `tiny-${index}`)
  for (const name of names) await world.applyService(name, { modelRef: 'tiny' })
  const published = async () => {
    const found = await world.admin.list({ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' })
    return found.flatMap((one) => slice.parse(one).endpoints?.flatMap(({ addresses }) => addresses) ?? [])
  }
  const areAt = async (address: string) => {
    const addresses = await published()
    return addresses.length === services && addresses.every((one) => one === address)
  }
  await eventually(() => areAt('192.0.2.20'), { timeoutMs: 120_000, what: 'all at the first address' })
  await eventually(() => agent.snapshot.services.every(({ state }) => state === 'ready'), { timeoutMs: 60_000 })

  interfaces = [has('lo0', '127.0.0.1'), has('en0', '192.0.2.21')]
  await eventually(() => areAt('192.0.2.21'), { what: 'all at the second address' })
})
