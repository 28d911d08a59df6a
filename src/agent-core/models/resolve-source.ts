import type { Logger } from '../observability/logger.ts'
import { hubCredentials } from './credentials.ts'
import { hasReason, localRepairMs, ModelError } from './errors.ts'
import { resolveHttp } from './http-source.ts'
import { fileUrl, hubAddressOf } from './hub/endpoint.ts'
import { HubClient, type Fetch } from './hub/hub-client.ts'
import { resolveHub } from './hub/resolve-hub.ts'
import type { HubToken } from './hub/token.ts'
import { resolveLocal, type LocalSource } from './local-source.ts'
import type { RemoteSource } from './remote-file.ts'
import { parseModelSource, shownSource, type HubAddress } from './source.ts'

/** What of `Model.spec` says which bytes are meant. */
export interface WantedModel {
  readonly source: string
  readonly format?: string | undefined
  readonly quantization?: string | undefined
  /** Of the first file, in hex. */
  readonly sha256?: string | undefined
  readonly mmproj?: string | undefined
  readonly files?: readonly string[] | undefined
}

export interface ResolveContext {
  readonly transport: { readonly fetch: Fetch }
  /** As `hubEndpoint` gives it. */
  readonly hubEndpoint: string
  /** Asked only for sources on the Hub. */
  readonly token?: (() => Promise<HubToken | undefined>) | undefined
  /** See `HubQuestion.namespace`. */
  readonly namespace?: string | undefined
  /** `HF_HUB_OFFLINE`: the Hub is not asked. */
  readonly offline?: boolean | undefined
  readonly signal: AbortSignal
  readonly log: Logger
  /** For tests: the token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean | undefined
}

export type ResolvedSource = LocalSource | RemoteSource

/** Which files a Model's source means, and where they are. Sends requests to the Hub alone. Throws ModelError, or the signal's reason. */
export async function resolveSource(wanted: WantedModel, context: ResolveContext): Promise<ResolvedSource> {
  const parsed = parseModelSource(wanted.source)
  switch (parsed.kind) {
    case 'unsupported':
      throw new ModelError('terminal', 'UnsupportedSource', parsed.message)
    case 'local':
      return resolveLocal(parsed.path, wanted)
    case 'hub':
      return onHub(parsed, [], wanted, context)
    case 'http': {
      const address = hubAddressOf(parsed.url, context.hubEndpoint)
      return address === undefined
        ? resolveHttp(parsed.url, wanted.source, wanted)
        : atHubAddress(address, wanted, context)
    }
  }
}

/** A mirror may hand out files and know nothing of the Hub's API; a file is then fetched as from any server. */
async function atHubAddress(
  { viewer, ...address }: HubAddress & { readonly viewer: boolean },
  wanted: WantedModel,
  context: ResolveContext,
): Promise<RemoteSource> {
  const { hubEndpoint, allowInsecureLoopback } = context
  const shown = shownSource(wanted.source)
  const notes = viewer ? [`${shown} is the page of a file, so the file itself (/resolve/) was taken.`] : []
  try {
    return await onHub(address, notes, wanted, context)
  } catch (error) {
    if (!hasReason(error, ['NoHubApi']) || address.path === undefined) throw error
    const url = fileUrl(hubEndpoint, address.repo, address.revision ?? 'main', address.path)
    const plain = resolveHttp(url, wanted.source, wanted)
    const credentials = hubCredentials(hubEndpoint, await context.token?.(), allowInsecureLoopback)
    const note = `${hubEndpoint} gives files but no information about them, so ${shown} is fetched without the Hub's checksum.`
    context.log.info(note, { source: shown })
    return {
      ...plain,
      files: plain.files.map((file) => ({
        ...file,
        isUnsaid: true,
        isPublic: credentials === undefined,
        ...(credentials && { credentials }),
      })),
      notes: [...notes, note],
    }
  }
}

async function onHub(
  address: HubAddress,
  notes: readonly string[],
  wanted: WantedModel,
  context: ResolveContext,
): Promise<RemoteSource> {
  const { hubEndpoint: endpoint, log, allowInsecureLoopback } = context
  const { client, token } = await hubClient(wanted, context)
  const resolved = await resolveHub(address, wanted, { client, endpoint, token, allowInsecureLoopback })
  for (const note of [...notes, ...resolved.notes]) log.info(note, { source: shownSource(wanted.source) })
  return { ...resolved, notes: [...notes, ...resolved.notes] }
}

/** What of the Hub the source means, as its page or file address too; undefined where it means none. */
export function hubAddressIn(source: string, endpoint: string): HubAddress | undefined {
  const parsed = parseModelSource(source)
  if (parsed.kind === 'hub') return parsed
  return parsed.kind === 'http' ? hubAddressOf(parsed.url, endpoint) : undefined
}

/** With the login of the request. Throws ModelError. */
export async function hubClient(
  { source }: WantedModel,
  { hubEndpoint: endpoint, transport, token, namespace, signal, offline, allowInsecureLoopback }: ResolveContext,
): Promise<{ client: HubClient; token: HubToken | undefined }> {
  if (offline === true) {
    throw new ModelError(
      'transient',
      'Offline',
      `HF_HUB_OFFLINE is set, so the Hub is not asked for ${shownSource(source)}: unset it, put the files into the model store, or give an absolute path.`,
      { retryAfterMs: localRepairMs },
    )
  }
  const login = await token?.()
  const { fetch } = transport
  return {
    client: new HubClient({ endpoint, fetch, token: login, namespace, signal, allowInsecureLoopback }),
    token: login,
  }
}
