import { z } from 'zod'
import { sentence } from '../../../contract/clean-text.ts'
import { LinkError } from '../../../contract/client.ts'
import type { Answer, EventView, Query } from '../../../contract/queries.ts'
import { isApiError, rootMessage } from '../../kube/api-error.ts'
import type { KubeApi } from '../../kube/kube-api.ts'
import { resources } from '../../kube/resources.ts'

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

export interface EventsSource {
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
    const why = error.code === undefined ? `does not answer (${rootMessage(error)})` : `refused it (${error.detail})`
    throw new LinkError('refused', `The Events cannot be read: the cluster ${why}.`, { cause: error })
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
    views.push(...items.flatMap((item) => viewOf(item) ?? []))
    read += items.length
    if (read >= maxEvents) break
  }
  return views
}

/** Undefined where it is no Event of that form: other clients may write any. */
function viewOf(item: unknown): EventView | undefined {
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
