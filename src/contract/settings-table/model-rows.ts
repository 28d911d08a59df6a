import { z } from 'zod'
import type { EditableRow } from '../setting-row.ts'
import { absolutePath, dayMs, number, whole } from '../setting-schemas.ts'

const endpointMessage = 'must be an http:// or https:// address of at most 1000 characters'

export const modelRows = {
  downloadBytesPerSecond: {
    kind: 'bytes',
    schema: whole(0, 1_000_000_000_000, 'must be from 0 to 1T'),
    default: 0,
    defaultMeans: 'no limit',
    group: 'Models',
    flag: 'download-limit',
    help: 'bytes per second of all downloads together, such as 20Mi',
    counts: 'now',
    trust: 'page',
  },
  downloadsAtOnce: {
    kind: 'count',
    schema: whole(1, 16, 'must be a number from 1 to 16'),
    default: 2,
    group: 'Models',
    flag: 'downloads-at-once',
    help: 'how many models are downloaded at the same time; the others wait',
    counts: 'now',
    trust: 'page',
  },
  hubEndpoint: {
    kind: 'text',
    schema: z.url({ protocol: /^https?$/, error: endpointMessage }).max(1_000, endpointMessage),
    defaultMeans: '$HF_ENDPOINT, then https://huggingface.co',
    group: 'Models',
    flag: 'hub-endpoint',
    help: 'address of the Hugging Face Hub or of a mirror',
    counts: 'nextDownload',
    // The token goes there.
    trust: 'shell',
  },
  hubTokenFile: {
    kind: 'path',
    schema: absolutePath,
    defaultMeans: 'what the app keeps, then $HF_TOKEN, then the file that hf auth login writes',
    group: 'Models',
    flag: 'hub-token-file',
    help: "file that holds the Hub's token",
    counts: 'nextDownload',
    trust: 'shell',
  },
  caFile: {
    kind: 'path',
    schema: absolutePath,
    group: 'Models',
    flag: 'ca-file',
    help: 'PEM file of certificate authorities that downloads trust beside the usual ones',
    counts: 'nextDownload',
    // The authorities that downloads trust decide which code and models are run.
    trust: 'shell',
  },
  diskReserveBytes: {
    kind: 'bytes',
    schema: whole(0, 10_000_000_000_000, 'must be from 0 to 10T'),
    default: 0,
    defaultMeans: 'the smaller of 2Gi and 1 % of it',
    group: 'Models',
    flag: 'disk-reserve',
    help: "bytes of the model store's volume that downloads leave free",
    counts: 'nextDownload',
    trust: 'page',
  },
  partialKeepMs: {
    kind: 'duration',
    schema: number(0, 365 * dayMs, 'must be from 0 to 8760h'),
    default: 7 * dayMs,
    group: 'Models',
    flag: 'partial-keep',
    help: 'how long a partial download is kept',
    counts: 'now',
    trust: 'page',
  },
  refreshEveryMs: {
    kind: 'duration',
    schema: number(10_000, 7 * dayMs, 'must be from 10s to 168h'),
    default: 600_000,
    group: 'Models',
    flag: 'refresh-interval',
    help: 'how often the source of a Model with refreshPolicy OnChange is asked for changes',
    counts: 'now',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>
