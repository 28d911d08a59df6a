import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { PinnedContext } from '../kube/pinned-context.ts'
import type { HostInterface, Platform } from '../platform/platform.ts'

/** A cluster whose nodes are virtual machines or containers of this machine. */
export interface LocalCluster {
  /** As its makers write it; "a virtual machine" where only the network tells. */
  readonly name: string
  /** What its nodes are inside of, where it is something else: "Docker". */
  readonly inside?: string
  /** Interfaces of this machine that lead to its nodes, where others may be there for other virtual machines. */
  readonly bridge?: RegExp
}

type Kind = LocalCluster & {
  /** Matches the names of contexts and clusters, as its tool writes them. */
  readonly names: RegExp
  /** Matches the host of the API server. */
  readonly hosts?: RegExp
  readonly folder?: string
}

/** Docker on Linux is a bridge of this machine; on a Mac it is in a virtual machine whose packets a program sends on. */
const inDocker = (system: Platform['name']) => ({
  inside: 'Docker',
  ...(system === 'linux' && { bridge: /^br-[0-9a-f]/ }),
})

/** By what kind 0.30, k3d 5.8, minikube 1.37 and the others of 2026 write into a kubeconfig. */
const kindsOn = (system: Platform['name']): readonly Kind[] => [
  { name: 'kind', names: /^kind-/, ...inDocker(system) },
  { name: 'k3d', names: /^k3d-/, hosts: /^host\.k3d\.internal$/, ...inDocker(system) },
  {
    ...{ name: 'minikube', names: /^minikube$/, hosts: /\.minikube\.internal$/, folder: '.minikube' },
    // By its driver: Docker, KVM (virbr), vfkit or QEMU with socket_vmnet (bridge).
    bridge: /^(br-[0-9a-f]|virbr|bridge)/,
  },
  {
    ...{ name: 'Docker Desktop', names: /^docker-(for-)?desktop$/, hosts: /\.docker\.internal$/ },
  },
  { name: 'OrbStack', names: /^orbstack$/, hosts: /\.orb\.local$/ },
  { name: 'Rancher Desktop', names: /^rancher-desktop$/, hosts: /\.rancher-desktop\.internal$/ },
  { name: 'Colima', names: /^colima(-|$)/, folder: '.colima' },
  { name: 'Lima', names: /^lima(-|$)/, hosts: /\.lima\.internal$/, folder: '.lima' },
]

/**
 * Networks inside this host, of virtual machines and containers, as macOS 26, Docker 29, libvirt 11 and VMware call them (2026). macOS numbers
 * those from bridge100 on; bridge0 is Thunderbolt between machines.
 */
export const bridges = /^(bridge[1-9]\d\d|vmenet|vmnet|docker|br-[0-9a-f]|virbr|veth)/

/**
 * The kind of cluster that runs on this machine; undefined where its API server is elsewhere, or at loopback without a name that tells, as behind
 * a tunnel. A name alone tells nothing: the server has to be at loopback, at a name inside of this machine or on one of its bridges.
 */
export function localCluster(
  { context, cluster, server, files }: PinnedContext['stated'],
  platform: Pick<Platform, 'name' | 'interfaces'>,
): LocalCluster | undefined {
  const host = (URL.parse(server)?.hostname ?? '').replace(/^\[|\]$/g, '')
  const kinds = kindsOn(platform.name)
  const byHost = kinds.find(({ hosts }) => hosts?.test(host))
  if (byHost) return plain(byHost)
  const isAtLoopback = host === 'localhost' || (isIP(host) !== 0 && here.has(ipaddr.parse(host).range()))
  const isOnBridge = platform.interfaces().some((one) => bridges.test(one.name) && isInNetworkOf(host, one))
  if (!isAtLoopback && !isOnBridge) return undefined
  const found = kinds.find(
    ({ names, folder }) =>
      names.test(context) ||
      names.test(cluster) ||
      (folder !== undefined && files.some((file) => file.split('/').includes(folder))),
  )
  if (found) return plain(found)
  return isOnBridge ? { name: 'a virtual machine' } : undefined
}

/** Such as "The cluster runs in kind (Docker) on this machine". */
export const localClusterText = ({ name, inside }: LocalCluster): string =>
  `The cluster runs in ${name}${inside === undefined ? '' : ` (${inside})`} on this machine`

const plain = ({ name, inside, bridge }: Kind): LocalCluster => ({
  name,
  ...(inside !== undefined && { inside }),
  ...(bridge && { bridge }),
})

/** k3d writes 0.0.0.0, which leads to this machine too. */
const here: ReadonlySet<string> = new Set(['loopback', 'unspecified'])

function isInNetworkOf(host: string, { address, netmask }: HostInterface): boolean {
  if (isIP(host) !== 4 || isIP(address) !== 4) return false
  const bits = ipaddr.IPv4.parse(netmask).prefixLengthFromSubnetMask()
  return bits !== null && ipaddr.IPv4.parse(host).match(ipaddr.IPv4.parse(address), bits)
}
