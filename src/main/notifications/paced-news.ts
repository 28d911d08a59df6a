import type { Logger } from '../../agent-core/observability/logger.ts'
import type { LoginItemState } from '../../contract/app-bridge.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { type AgentView, type AgentViewStore, onceKnown } from '../agent/agent-view.ts'
import { loginItemState } from '../system/macos.ts'
import { grouped, lossDueAt, type News, newsIn, type Watched } from './news.ts'
import { showNews } from './show.ts'
import { movedNews, type ShellPreferences } from '../preferences.ts'
import type { MenuDeed } from '../tray/menu-entries.ts'

export interface PacedNewsOptions {
  readonly show: (news: News) => void
  /** A person wants notifications. */
  readonly isWanted: () => boolean
  readonly now?: () => number
}

/** What happens together is told together. */
const gatherMs = 2_000
/** Between notifications, whatever happens. */
const quietMs = 15_000
/** So long the same is not told again: a model that serves for a minute and crashes again is known by then. */
const sameAgainMs = 600_000

/** Tells a person what is new, never more than they can read. */
export class PacedNews {
  readonly #options: PacedNewsOptions
  readonly #now: () => number
  #watched: Watched | undefined
  #snapshot: AgentSnapshot | undefined
  #waiting = new Map<string, News>()
  readonly #toldAt = new Map<string, number>()
  #shownAt = -Infinity
  #flush: NodeJS.Timeout | undefined
  #lossCheck: NodeJS.Timeout | undefined

  constructor(options: PacedNewsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  next(snapshot: AgentSnapshot): void {
    this.#snapshot = snapshot
    const { watched, news } = newsIn(this.#watched, snapshot, this.#now())
    this.#watched = watched
    if (this.#options.isWanted()) this.#gather(news)
    this.#followLoss(watched)
  }

  /** The cluster could not be seen while this machine slept. */
  woke(): void {
    const watched = this.#watched
    if (watched?.cluster.lostAt === undefined) return
    this.#watched = { ...watched, cluster: { ...watched.cluster, lostAt: this.#now() } }
  }

  stop(): void {
    clearTimeout(this.#flush)
    clearTimeout(this.#lossCheck)
  }

  #gather(news: readonly News[]): void {
    const now = this.#now()
    for (const one of news) {
      if (one.isPaced !== true && now - (this.#toldAt.get(one.id) ?? -Infinity) < sameAgainMs) continue
      this.#toldAt.set(one.id, now)
      this.#waiting.set(one.id, one)
    }
    if (this.#waiting.size === 0 || this.#flush) return
    this.#flush = setTimeout(() => this.#showAll(), Math.max(gatherMs, this.#shownAt + quietMs - now))
  }

  #showAll(): void {
    this.#flush = undefined
    const waiting = [...this.#waiting.values()]
    this.#waiting = new Map()
    for (const [id, at] of this.#toldAt) if (this.#now() - at >= sameAgainMs) this.#toldAt.delete(id)
    // It may have been turned off meanwhile.
    if (!this.#options.isWanted()) return
    this.#shownAt = this.#now()
    for (const one of grouped(waiting)) this.#options.show(one)
  }

  /** No snapshot may come any more while nothing changes. */
  #followLoss({ cluster }: Watched): void {
    clearTimeout(this.#lossCheck)
    const dueAt = lossDueAt(cluster)
    if (dueAt === undefined) return
    this.#lossCheck = setTimeout(
      () => {
        if (this.#snapshot) this.next(this.#snapshot)
      },
      Math.max(0, dueAt - this.#now()) + 1,
    )
  }
}

export interface TellNewsOptions {
  readonly view: AgentViewStore
  readonly log: Logger
  readonly prefer: (changes: Partial<ShellPreferences>) => Promise<void>
  readonly onDeed: (deed: MenuDeed) => void
}

/** Tells by notifications what icon and menu say too. Answers what is to be called when the machine woke. */
export function tellNews({ view, log, prefer, onDeed }: TellNewsOptions): () => void {
  const isWanted = () => view.getState().preferences?.notifications === true
  const paced = new PacedNews({ isWanted, show: (news) => showNews(news, log, onDeed) })
  let isOffered = false
  const offerLogin = () => {
    // What asks the system comes last.
    if (
      isOffered ||
      !isLoginOfferDue(view.getState(), 'not-registered') ||
      loginItemState(view.getState().misplaced) !== 'not-registered'
    )
      return
    isOffered = true
    view.setState({ offersLoginItem: true })
    if (isWanted()) showNews(loginOffer, log, onDeed)
    prefer({ loginItemOffered: true }).catch((error: unknown) => log.warn('the offer is not remembered', { error }))
  }
  view.subscribe((state, before) => {
    // Until it is known whether a person wants to be told, nothing counts as told.
    if (!state.snapshot || !state.preferences) return
    if (state.snapshot === before.snapshot && before.preferences) return
    paced.next(state.snapshot)
    offerLogin()
  })
  const moved = (now: AgentView) => now.movedKeys
  onceKnown(view, moved, (keys) => {
    if (isWanted()) showNews(movedNews(keys), log, onDeed)
  })
  return () => paced.woke()
}

/** Once, when the first model serves: then a person knows what the app is for. */
export const isLoginOfferDue = ({ snapshot, preferences }: AgentView, loginItem: LoginItemState): boolean =>
  preferences?.loginItemOffered === false &&
  loginItem === 'not-registered' &&
  snapshot?.services.some(({ state }) => state === 'ready') === true

/** The menu says the same until the app ends, and has it under This app from then on. */
export const loginOffer: News = {
  id: 'login item',
  title: 'Open Metalbar at login?',
  body: 'Then this Mac serves its models after a restart too. The menu has it under This app.',
  click: { kind: 'open', at: { view: 'settings' } },
  action: { label: 'Open at login', deed: { kind: 'loginItem', isOn: true } },
}
