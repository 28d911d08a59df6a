import { actionsFor } from '../../contract/words.ts'
import { sentence } from '../../contract/clean-text.ts'
import type { CommandName } from '../../contract/commands.ts'
import type { ServiceView } from '../../contract/service.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { nameWithin, type MenuAction } from '../tray/menu-entries.ts'
import { newsWords } from '../words.ts'

/** What notifications are about; the icon and the menu show the same. */
export interface News {
  /** The same again takes the place of what is shown. */
  readonly id: string
  readonly title: string
  readonly body: string
  /** What a click does. */
  readonly click: MenuAction
  /** On a button, where something helps at once. */
  readonly button?: { readonly label: string; readonly action: MenuAction }
}

type Trouble = 'crashes' | 'doesNotFit' | 'refused' | 'evicted'

/** What was reported, and losses that may still have to be reported. */
export interface Watched {
  readonly bootId: string
  /** By uid: the reported trouble, until the service serves or is stopped on purpose. */
  readonly troubles: ReadonlyMap<string, Trouble>
  readonly cluster: {
    readonly context: string
    readonly wasLive: boolean
    /** Since when it is not seen, in our milliseconds. */
    readonly lostAt?: number
    readonly isLossReported: boolean
  }
  /** When troubles and losses of a cluster were last reported, in our milliseconds, as long as it keeps the same from being reported again. */
  readonly reportedAt: ReadonlyMap<string, number>
}

/** A router that restarts, or a connection that is re-established, is no reason to notify a person. */
export const lossAfterMs = 60_000
/** The same is reported once in this time; a loss of the cluster that lasts longer is reported after it. */
const sameAgainMs = 600_000

const lossOf = (context: string) => `cluster ${context}`

/** When the loss is to be reported; undefined if there is none, or it was reported. */
export function lossDueAt({ cluster, reportedAt }: Pick<Watched, 'cluster' | 'reportedAt'>): number | undefined {
  const { context, lostAt, isLossReported } = cluster
  if (lostAt === undefined || isLossReported) return undefined
  return Math.max(lostAt + lossAfterMs, (reportedAt.get(lossOf(context)) ?? -Infinity) + sameAgainMs)
}

/** What is new since the last snapshot. What is there when the first one comes is no news. */
export function newsIn(
  before: Watched | undefined,
  snapshot: AgentSnapshot,
  nowMs: number,
): { readonly watched: Watched; readonly news: readonly News[] } {
  const reportedAt = new Map([...(before?.reportedAt ?? [])].filter(([, at]) => nowMs - at < sameAgainMs))
  const troubles = troublesAfter(before, snapshot)
  const cluster = clusterAfter(before, snapshot, nowMs)
  const watched: Watched = { bootId: snapshot.bootId, troubles, cluster, reportedAt }
  if (!before) return { watched, news: [] }
  const news = snapshot.services.flatMap((service) => {
    const trouble = troubles.get(service.uid)
    return trouble === undefined || trouble === before.troubles.get(service.uid) ? [] : [newsOf(service, trouble)]
  })
  // One that serves for a minute and crashes again is no news.
  const told = news.filter(({ id }) => !reportedAt.has(id))
  for (const { id } of told) reportedAt.set(id, nowMs)
  if (cluster.isLossReported && !before.cluster.isLossReported) reportedAt.set(lossOf(cluster.context), nowMs)
  return { watched, news: [...told, ...clusterNews(before.cluster, cluster, snapshot)] }
}

function troublesAfter(before: Watched | undefined, snapshot: AgentSnapshot): Map<string, Trouble> {
  const after = new Map<string, Trouble>()
  const known = new Set(snapshot.services.map(({ uid }) => uid))
  // An agent that has just started, or does not see its cluster, does not know yet which services there are.
  const isWhole = before?.bootId === snapshot.bootId && snapshot.cluster.state === 'live'
  for (const [uid, trouble] of before?.troubles ?? []) if (!isWhole && !known.has(uid)) after.set(uid, trouble)
  for (const service of snapshot.services) {
    const trouble = troubleOf(service) ?? (isOver(service) ? undefined : before?.troubles.get(service.uid))
    if (trouble !== undefined) after.set(service.uid, trouble)
  }
  return after
}

function troubleOf({ state, reason, hold }: ServiceView): Trouble | undefined {
  if (state === 'foreign') return undefined
  if (state === 'crash-looping') return 'crashes'
  if (reason === 'InsufficientMemory') return 'doesNotFit'
  if (state === 'refused') return 'refused'
  return hold?.cause === 'evicted' && hold.by === 'pressure' ? 'evicted' : undefined
}

/** The next attempt after a crash is no end of the trouble. */
const isOver = ({ state }: ServiceView): boolean => state === 'ready' || state === 'stopped' || state === 'foreign'

const remedies: Readonly<Partial<Record<Trouble, CommandName>>> = { crashes: 'stop', evicted: 'bringBack' }

function newsOf(service: ServiceView, trouble: Trouble): News {
  const { uid, namespace, name, message } = service
  const remedy = actionsFor(service).find(({ command }) => command.name === remedies[trouble])
  return {
    id: `${namespace}/${name} ${trouble}`,
    title: newsWords.titles[trouble](nameWithin(name)),
    body: sentence(message, maxBodyBytes),
    click: ['open', { service: uid }],
    ...(remedy && { button: { label: remedy.label, action: ['command', remedy.command] } }),
  }
}

/** macOS shows four lines of it. */
const maxBodyBytes = 240

function clusterAfter(
  before: Watched | undefined,
  { cluster: { context, state } }: AgentSnapshot,
  nowMs: number,
): Watched['cluster'] {
  if (state === 'live') return { context, wasLive: true, isLossReported: false }
  // One that was not seen from the beginning on is not lost.
  if (before?.cluster.context !== context || !before.cluster.wasLive)
    return { context, wasLive: false, isLossReported: false }
  const lost = { ...before.cluster, lostAt: before.cluster.lostAt ?? nowMs }
  const dueAt = lossDueAt({ cluster: lost, reportedAt: before.reportedAt })
  return dueAt === undefined || nowMs < dueAt ? lost : { ...lost, isLossReported: true }
}

function clusterNews(
  before: Watched['cluster'],
  after: Watched['cluster'],
  { cluster: { message } }: AgentSnapshot,
): News[] {
  if (before.context !== after.context || before.isLossReported === after.isLossReported) return []
  const name = nameWithin(after.context)
  return [
    {
      id: 'cluster',
      title: after.isLossReported ? newsWords.clusterLost(name) : newsWords.clusterBack.title(name),
      body: after.isLossReported ? sentence(newsWords.keepServing(message), maxBodyBytes) : newsWords.clusterBack.body,
      click: ['open'],
    },
  ]
}
