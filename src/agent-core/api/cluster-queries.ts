import { z } from 'zod'
import { isApiError } from '../kube/api-error.ts'
import type { Cluster } from '../kube/cluster.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { KubeconfigError } from '../kube/kubeconfig.ts'
import { type KubeconfigChoice, listContexts, type PinnedContext } from '../kube/pinned-context.ts'
import { type Condition, parseLease, readable, resources } from '../kube/resources.ts'
import { clusterWords } from './command.ts'
import { memberOf, nodeLabel } from '../publishing/lease-content.ts'
import { sentence } from '../../contract/clean-text.ts'
import { LinkError } from '../../contract/client.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import type { UnservedView } from '../../contract/doctor.ts'
import type { Answer, ConditionView, EventView, Query } from '../../contract/queries.ts'

const maxConditions = 50
/** Kubernetes' own limit of a condition's type and reason is about this. */
const maxTypeBytes = 320

/** What everybody says of an InferenceService in its status, as last heard of the cluster; nothing of one that is deleted and still has a server here. */
export function conditions(
  { inferenceServices }: Pick<Cluster, 'inferenceServices'>,
  { namespace, name }: ServiceRef,
): { conditions: ConditionView[] } {
  const { status } = inferenceServices.get(namespace, name) ?? {}
  return { conditions: (status?.conditions ?? []).slice(0, maxConditions).map(conditionView) }
}

function conditionView({ type, status, reason, message, lastTransitionTime }: Condition): ConditionView {
  const since = Date.parse(lastTransitionTime ?? '')
  return {
    type: sentence(type, maxTypeBytes),
    status: sentence(status, maxTypeBytes),
    reason: sentence(reason, maxTypeBytes),
    message: sentence(message, maxMessageBytes),
    ...(!Number.isNaN(since) && { since: new Date(since).toISOString() }),
  }
}

/** Events come in no useful order, so that all of a service must be read for the newest; more than this are a flood. */
const maxEvents = 2_000

/** Kubernetes accepts no longer message; whatever wrote it, more is not for a window. */
const maxMessageBytes = 1_024
const maxWordBytes = 256

const timestamp = z.string().nullish()
const event = z.object({
  metadata: z.object({ creationTimestamp: timestamp }),
  involvedObject: z.object({ kind: z.string(), namespace: z.string(), name: z.string() }),
  type: z.string().default(''),
  reason: z.string().default(''),
  message: z.string().default(''),
  count: z.int().nullish(),
  source: z.object({ component: z.string().default('') }).nullish(),
  reportingComponent: z.string().nullish(),
  firstTimestamp: timestamp,
  lastTimestamp: timestamp,
  eventTime: timestamp,
})

interface EventsSource {
  readonly api: KubeApi
  /** Undefined = all that are watched. */
  readonly namespace: string | undefined
  /** Services that are shown. */
  readonly isShown: (namespace: string, name: string) => boolean
}

/** Kubernetes Events, newest first. Throws LinkError where the cluster does not tell. */
export async function events(
  { api, namespace, isShown }: EventsSource,
  { service, limit }: Extract<Query, { name: 'events' }>,
  signal?: AbortSignal,
): Promise<Answer<'events'>> {
  const fields = ['involvedObject.kind=InferenceService', ...(service ? [`involvedObject.name=${service.name}`] : [])]
  try {
    const views = await readAll(
      api,
      { namespace: service?.namespace ?? namespace, fieldSelector: fields.join(',') },
      signal,
    )
    const found = views
      .filter((view) => service !== undefined || isShown(view.service.namespace, view.service.name))
      .sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0))
    return { events: found.slice(0, limit), hasMore: found.length > limit }
  } catch (error) {
    if (!isApiError(error)) throw error
    throw new LinkError('refused', clusterWords('The Events cannot be read', error), { cause: error })
  }
}

async function readAll(
  api: KubeApi,
  which: { readonly namespace: string | undefined; readonly fieldSelector: string },
  signal: AbortSignal | undefined,
): Promise<EventView[]> {
  const views: EventView[] = []
  let read = 0
  for await (const { items } of api.pages(resources.events, which, signal)) {
    views.push(...items.flatMap((item) => eventView(item) ?? []))
    read += items.length
    if (read >= maxEvents) break
  }
  return views
}

/** Undefined where it is no Event of that form: other clients may write any. */
function eventView(item: unknown): EventView | undefined {
  const { data } = event.safeParse(item)
  const at = Date.parse(
    data?.lastTimestamp ?? data?.eventTime ?? data?.firstTimestamp ?? data?.metadata.creationTimestamp ?? '',
  )
  if (!data || Number.isNaN(at)) return undefined
  const { involvedObject, type, reason, message, count, source, reportingComponent } = data
  return {
    at: new Date(at).toISOString(),
    type: sentence(type, maxWordBytes),
    reason: sentence(reason, maxWordBytes),
    message: sentence(message, maxMessageBytes),
    count: Math.max(1, count ?? 1),
    service: { namespace: involvedObject.namespace, name: involvedObject.name },
    source: sentence(source?.component || (reportingComponent ?? ''), maxWordBytes),
  }
}

/** What the kubeconfig offers, without its credentials. Throws LinkError where it cannot be read. */
export async function contexts(
  choice: KubeconfigChoice,
  inUse: PinnedContext | undefined,
): Promise<Answer<'contexts'>> {
  try {
    const { source, contexts: found } = await listContexts(choice)
    return { kubeconfig: source, contexts: found.map((one) => ({ ...one, inUse: one.name === inUse?.name })) }
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error
    throw new LinkError('refused', error.message, { cause: error })
  }
}

const maxListed = 500

/** What is for a Mac first, by name. */
export function unserved(services: readonly UnservedView[]): Answer<'unserved'> {
  const keyOf = ({ isForOthers, namespace, name }: UnservedView) => `${Number(isForOthers)} ${namespace}/${name}`
  const sorted = services.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  const shown = sorted.slice(0, maxListed).map((one) => ({ ...one, message: sentence(one.message, maxMessageBytes) }))
  return { services: shown, hasMore: sorted.length > maxListed }
}

interface FleetPlace {
  readonly api: KubeApi
  /** Where the Leases are. */
  readonly namespace: string
  readonly nodeId: string
}

/** Every Mac that tells of itself beside this one. Throws LinkError. */
export async function fleet({ api, namespace, nodeId }: FleetPlace, signal: AbortSignal): Promise<Answer<'fleet'>> {
  try {
    const asked = { namespace, labelSelector: nodeLabel, limit: maxListed }
    const { items, continueToken } = await api.list(resources.leases, asked, signal)
    const members = readable(items, parseLease).map((lease) => memberOf(lease, nodeId))
    return { members: members.toSorted((a, b) => (a.name < b.name ? -1 : 1)), hasMore: continueToken !== undefined }
  } catch (error) {
    if (!isApiError(error)) throw error
    if (error.code === 403) {
      const right = `list leases in the namespace ${namespace}`
      throw new LinkError(
        'refused',
        `The other Macs are not shown, since this login may not ${right}: metal-agent rights --further prints the commands that give that right.`,
        { cause: error },
      )
    }
    throw new LinkError('refused', clusterWords('The other Macs cannot be read', error), { cause: error })
  }
}
