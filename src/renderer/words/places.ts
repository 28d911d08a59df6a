import { formatBytes } from '../../contract/format.ts'
import type { ModelStoreView } from '../../contract/models.ts'
import { notReported } from './services.ts'

/** Where this machine belongs, and where its things are. */
export const placeWords = {
  kubeconfig: 'kubeconfig',
  contexts: 'Contexts of the kubeconfig',
  noServer: `server ${notReported}`,
  inUse: 'in use',
  serve: 'Serve',
  serveOne: (context: string) => `Serve ${context}`,
  serveSure: 'What runs for the present cluster is stopped, and this machine serves the other one.',
  production: (context: string, server: string) =>
    `${context}${server === '' ? '' : ` (${server})`} is called production: this machine would claim and serve what its InferenceServices ask for.`,
  serveNow: 'Yes, serve it',
  stay: 'Stay',
  contextNeedsShell: 'A page in a browser may not choose the cluster. In a terminal on this Mac:',
  contextCommand: 'metal-agent context use NAME',
  copyContextCommand: 'Copy command for the context',
  addresses: 'Addresses of this machine',
  automatic: 'Automatic',
  use: 'Use',
  useWritten: 'Use the address that is written',
  otherAddress: 'Other address',
  otherAddressHelp: 'An IPv4 address that this machine has by now, such as that of a VPN.',
  noAddress: 'It must be an IPv4 address, such as 192.168.1.20.',
  useOne: (name: string) => `Use ${name}`,
  folder: 'Folder',
  free: ({ freeBytes }: ModelStoreView) =>
    freeBytes === undefined ? `Free space ${notReported}` : `${formatBytes(freeBytes)} free on its disk`,
} as const
