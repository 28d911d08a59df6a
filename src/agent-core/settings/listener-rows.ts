import { z } from 'zod'
import { negativeMeansZero, type SettingRow } from '../../contract/settings-table.ts'
import { parseAddressAndPort } from '../util/address-and-port.ts'

const portMessage = 'must be a port number from 0 to 65535'
export const portOrZero = z.int({ error: portMessage }).min(0, portMessage).max(65_535, portMessage)

const addressMessage =
  'must be an address of this host, no name, and a port from 1 to 65535, such as 192.168.1.20:9091 or 0.0.0.0:9091'
const fileMessage = 'must be an absolute path of at most 1000 characters'

/** Where the agent itself listens for HTTP. */
export const listenerRows = {
  port: {
    kind: 'port',
    schema: portOrZero,
    default: 9090,
    group: 'Agent',
    flag: 'port',
    flagTakes: negativeMeansZero,
    help: 'port of /healthz, /readyz and /metrics on 127.0.0.1; 0 for none',
  },
  uiPort: {
    kind: 'port',
    schema: portOrZero,
    bare: '0',
    defaultMeans: 'when asked, by metal-agent ui',
    group: 'Agent',
    flag: 'ui',
    help: 'serve the window for a browser on 127.0.0.1, at this port or any free one, and print its address',
  },
  metricsAddress: {
    kind: 'text',
    schema: z
      .string({ error: addressMessage })
      .refine((text) => parseAddressAndPort(text) !== undefined, addressMessage),
    defaultMeans: 'none',
    group: 'Agent',
    flag: 'metrics-address',
    help: 'address and port at which a Prometheus on the network gets /metrics, and nothing else, with the token of --metrics-token-file',
  },
  metricsTokenFile: {
    kind: 'path',
    schema: z.string({ error: fileMessage }).startsWith('/', fileMessage).max(1_000, fileMessage),
    defaultMeans: 'none',
    group: 'Agent',
    flag: 'metrics-token-file',
    flagTakes: {
      what: 'never a relative path',
      why: 'launchd starts the agent in /',
      read: (path: string) => path,
    },
    help: 'file of this user alone (chmod 600) with the token for --metrics-address, of 16 to 1024 visible characters; read at each scrape',
  },
} as const satisfies Readonly<Record<string, SettingRow>>
