import { describe, expect, test } from 'vitest'
import type { HostInterface } from '../../../src/agent-core/platform/platform.ts'
import { chooseHostAddress } from '../../../src/agent-core/publishing/host-address.ts'
import { localCluster, localClusterText } from '../../../src/agent-core/publishing/local-cluster.ts'

const card = (name: string, address: string, netmask = '255.255.255.0'): HostInterface => ({
  ...{ name, address, netmask, family: 'IPv4', internal: name === 'lo0' },
})
const lan = [card('lo0', '127.0.0.1', '255.0.0.0'), card('en0', '192.168.1.20')]
const vmnet = [...lan, card('bridge100', '192.168.64.1')]

interface Named {
  readonly context?: string
  readonly cluster?: string
  readonly server: string
  readonly files?: readonly string[]
  readonly interfaces?: readonly HostInterface[]
  readonly on?: 'darwin' | 'linux'
}

const found = ({ context = 'a', cluster = 'b', server, files = [], interfaces = lan, on = 'darwin' }: Named) =>
  localCluster({ context, cluster, server, files }, { name: on, interfaces: () => [...interfaces] })

describe('the kind of a cluster on this machine', () => {
  const loopback = 'https://127.0.0.1:52341'
  test.each<[string, Named]>([
    ['kind (Docker)', { context: 'kind-dev', server: loopback }],
    ['kind (Docker)', { context: 'dev', cluster: 'kind-dev', server: loopback, on: 'linux' }],
    ['k3d (Docker)', { context: 'k3d-a', server: 'https://0.0.0.0:6443' }],
    ['k3d (Docker)', { server: 'https://host.k3d.internal:6443' }],
    ['minikube', { context: 'minikube', server: 'https://192.168.64.5:8443', interfaces: vmnet }],
    ['minikube', { context: 'minikube', server: loopback }],
    ['minikube', { context: 'minikube', server: loopback, on: 'linux' }],
    ['minikube', { server: 'https://control-plane.minikube.internal:8443' }],
    ['minikube', { context: 'mine', server: loopback, files: ['/Users/ada/.minikube/ca.crt'] }],
    ['Docker Desktop', { context: 'docker-desktop', server: loopback }],
    ['Docker Desktop', { context: 'docker-for-desktop', server: 'https://localhost:6443' }],
    ['Docker Desktop', { server: 'https://kubernetes.docker.internal:6443' }],
    ['OrbStack', { context: 'orbstack', server: 'https://127.0.0.1:26443' }],
    ['OrbStack', { server: 'https://k8s.orb.local:26443' }],
    ['Rancher Desktop', { context: 'rancher-desktop', server: loopback }],
    ['Colima', { context: 'colima', server: loopback }],
    ['Colima', { context: 'colima-work', server: loopback }],
    ['Lima', { context: 'lima-k8s', server: 'https://[::1]:6443' }],
    ['Lima', { server: loopback, files: ['/Users/ada/.lima/k8s/conf/kubeconfig'] }],
    ['a virtual machine', { server: 'https://192.168.64.9:6443', interfaces: vmnet }],
    ['a virtual machine', { server: 'https://192.168.65.9:6443', interfaces: [card('bridge100', '192.168.65.1')] }],
  ])('is %s by %j', (name, named) => {
    const local = found(named)
    expect(local && localClusterText(local)).toBe(`The cluster runs in ${name} on this machine`)
  })

  test.each<[string, Named]>([
    ['an address elsewhere, whatever its context is called', { context: 'kind-prod', server: 'https://10.0.0.4:6443' }],
    ['a name elsewhere', { context: 'minikube', server: 'https://api.example.com' }],
    ['a name that only ends like one', { server: 'https://docker.internal.example.com' }],
    ['loopback without a name that tells, as by a tunnel', { context: 'prod', server: loopback }],
    ['the network of a card', { server: 'https://192.168.1.9:6443' }],
    ['a network that a bridge does not lead to', { server: 'https://192.168.65.9:6443', interfaces: vmnet }],
    ['nothing that can be read', { context: 'kind-a', server: 'nonsense' }],
  ])('is not known by %s', (_, named) => {
    expect(found(named)).toBeUndefined()
  })
})

test('where there is no local network, Pods are sent to the bridge that leads to this kind of cluster', () => {
  const local = found({ context: 'kind-dev', server: 'https://127.0.0.1:1', on: 'linux' })
  const candidates = [card('virbr0', '192.168.122.1'), card('br-0123456789ab', '172.18.0.1')]
  expect(chooseHostAddress(candidates, '127.0.0.1', local)).toMatchObject({
    ...{ address: '172.18.0.1' },
    why: 'br-0123456789ab is a network of virtual machines; the cluster runs in kind (Docker) on this machine',
  })
  expect(chooseHostAddress(candidates, '127.0.0.1')).toMatchObject({ address: '192.168.122.1' })
  expect(chooseHostAddress([...candidates, ...lan], '127.0.0.1', local)).toMatchObject({ address: '192.168.1.20' })
})
