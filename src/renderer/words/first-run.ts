import { formatBytes } from '../../contract/format.ts'
import type { ModelStoreView } from '../../contract/models.ts'
import type { RuntimeView } from '../../contract/queries.ts'
import type { Words } from '../../contract/words.ts'
import type { ClusterObstacle } from '../first-run.ts'
import { notReported } from './services.ts'

const obstacles: Readonly<Record<ClusterObstacle, string>> = {
  noContext: 'no context to use',
  localNetwork: 'macOS keeps Metalbar from the local network',
  noAnswer: 'does not answer',
  noDefinitions: 'LLMKube is not installed there',
  noRights: 'does not grant the rights that the agent needs',
  noLogin: 'does not accept the login of the kubeconfig',
}

export const firstRunWords = {
  title: 'What was found',
  cluster: 'Cluster',
  connecting: (context: string) => (context === '' ? 'connecting…' : `connecting to ${context}…`),
  context: (name: string, server: string) => `${name} · ${server}`,
  namespace: 'Namespace',
  allNamespaces: 'all namespaces',
  obstacle: (context: string, obstacle: ClusterObstacle): string =>
    [...(context === '' ? [] : [context]), obstacles[obstacle]].join(' · '),
  chooseContext: 'Choose a context of the kubeconfig:',
  chooseInTerminal: 'A page in a browser cannot choose the context. Run in a terminal on this machine:',
  useContext: (name: string) => `Use ${name}`,
  copyUse: (name: string) => `Copy command for ${name}`,
  reload: 'Read the kubeconfig again',
  tryNow: 'Try now',
  install: 'This installs it:',
  definitions:
    'Or only its definitions, which are enough for this machine; helm then installs the rest with --set crds.install=false:',
  copyDefinitions: 'Copy the kubectl line',
  login: 'Log in again as for kubectl. Run this in a terminal to see whether the cluster accepts you:',
  rights: 'A cluster administrator can grant the rights with these commands. Fill in ADMIN at their beginning.',
  copyRights: 'Copy commands for the rights',
  showRights: 'The commands',
  furtherRights: 'Optional rights',
  copyFurther: (number: number) => `Copy commands ${number}`,
  address: 'Address',
  at: (address: string, network: string | undefined) =>
    network === undefined ? `${address} · interface ${notReported}` : `${address} · ${network}`,
  noAddress: 'none that a cluster can reach',
  useAddress: (address: string, network: string) => `Use ${address} (${network})`,
  runtime: ({ path, version }: RuntimeView) =>
    path === undefined ? 'not found' : `version ${version ?? notReported} · ${path}`,
  formats: ({ formats }: RuntimeView) => `Serves models of the format ${formats.join(', ')}.`,
  brew: 'brew install llama.cpp',
  installs: 'Run in a terminal on this machine:',
  copyInstall: (name: string) => `Copy command for ${name}`,
  brewOnLinux: 'Homebrew has it for Linux too; a package of your distribution works as well.',
  store: 'Model store',
  inStore: ({ directory, freeBytes }: ModelStoreView) =>
    `${directory} · ${freeBytes === undefined ? `free space ${notReported}` : `${formatBytes(freeBytes)} free`}`,
  runtimes: 'Runtimes',
  looking: 'looking…',
} as const satisfies Words

export const noServiceWords = {
  unknown: 'Services are not known while the cluster cannot be reached.',
  title: 'No service for this machine yet',
  where: (namespace: string | undefined) =>
    `There is no InferenceService ${namespace === undefined ? 'in any namespace' : `in namespace ${namespace}`} whose Model says`,
  accelerator: 'accelerator: metal',
  makes: 'Make a small one in a terminal',
} as const satisfies Words

/** Where this machine belongs, and where its things are. */
export const placeWords = {
  contextsOf: 'Contexts of',
  contexts: 'Contexts of the kubeconfig',
  noServer: `server ${notReported}`,
  inUse: 'in use',
  serve: 'Serve',
  serveOne: (context: string) => `Serve ${context}`,
  serveSure: 'The models of the current cluster stop, and this machine serves the other cluster.',
  production: (context: string, server: string) =>
    `${context}${server === '' ? '' : ` (${server})`} looks like production by its name: this machine would claim and serve its InferenceServices.`,
  serveNow: 'Yes, serve it',
  stay: 'Stay',
  contextNeedsShell: 'A page in a browser cannot choose the cluster. Run in a terminal on this Mac:',
  contextCommand: 'metal-agent context use NAME',
  copyContextCommand: 'Copy command for the context',
  addresses: 'Addresses of this machine',
  foundRuntimes: 'Runtimes on this machine',
  automatic: 'Automatic',
  use: 'Use',
  useWritten: 'Use the entered address',
  otherAddress: 'Other address',
  otherAddressHelp: 'An address of this machine, such as that of a VPN.',
  noAddress: 'It must be an address of IPv4 or IPv6, such as 192.168.1.20.',
  useOne: (name: string) => `Use ${name}`,
  free: ({ freeBytes }: ModelStoreView) =>
    freeBytes === undefined ? `Free space ${notReported}` : `${formatBytes(freeBytes)} free on the disk of the models`,
} as const satisfies Words
