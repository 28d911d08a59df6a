import { z } from 'zod'
import { type LinkFailure, lookers } from './client.ts'
import { appPreferences, type AppState } from './app-state.ts'
import { commandRequest, type CommandResult, serviceRef } from './commands.ts'
import { logRun, type StreamItem, streamRequest } from './log.ts'
import { type Answer, query } from './queries.ts'
import type { AgentSnapshot } from './snapshot.ts'
import { traceKinds, type TraceList } from './uninstall.ts'

export type BridgeReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: LinkFailure }

export const windowViews = ['services', 'models', 'activity', 'settings', 'help'] as const
/** A part of the window that a person turns to. */
export type WindowView = (typeof windowViews)[number]

/** Longer than any uid of a cluster. */
const maxUid = 200

/** What a person looks at in the window: one of its parts, or a service by its uid. */
const lookedAt = z.union([
  z.strictObject({ view: z.enum(windowViews) }),
  z.strictObject({ service: z.string().min(1).max(maxUid) }),
])

const nothing = z.void()
/** Undefined where the person does not want it. */
const agreed = z.custom<CommandResult | undefined>()
/** Chosen by the page. */
const id = z.string().min(1).max(100)

const listenRequest = z.discriminatedUnion('name', [
  z.object({ name: z.literal('snapshot'), looker: z.enum(lookers).default('window') }),
  ...streamRequest.options,
])
export type ListenInput = z.input<typeof listenRequest>

/** What only the app can do, for its own window; there is nothing of it over HTTP. */
const appVerbs = {
  appState: { in: nothing, out: z.custom<AppState>() },
  /** Kept encrypted by the keychain, over a token that is there. Whether it is a token is judged where it is kept. */
  setHubToken: { in: z.string().max(65_536), out: nothing },
  removeHubToken: { in: nothing, out: nothing },
  setLoginItem: { in: z.boolean(), out: nothing },
  prefer: { in: appPreferences.partial(), out: nothing },
  /** Undefined where the person chose none. */
  chooseFile: {
    in: z.enum(['kubeconfig', 'executable', 'tokenFile', 'certificates']),
    out: z.custom<string | undefined>(),
  },
  /** A part of System Settings. */
  openPane: { in: z.enum(['loginItems', 'notifications', 'localNetwork']), out: nothing },
  /** The sudo rule that lets powermetrics run. In Terminal, after the person saw what it runs. */
  changePowerRule: { in: z.enum(['install', 'remove']), out: agreed },
  /** Answered when it has begun; the state tells how far it is. `dismiss`: a person has read what went wrong, or what became of the last one. */
  update: { in: z.enum(['look', 'download', 'cancel', 'install', 'dismiss']), out: nothing },
  /** Links the app's command into a folder of the PATH, or takes the link away. */
  setCommandLink: { in: z.boolean(), out: nothing },
  /** The app ends, and is opened from there. */
  moveToApplications: { in: nothing, out: agreed },
  /** Everything that was ever written, here and in the cluster. */
  traces: { in: nothing, out: z.custom<TraceList>() },
  /** Removes these, after the person said yes once more, and ends the app. */
  uninstall: { in: z.array(z.enum(traceKinds)), out: nothing },
  /** Shows the file of one run of a service's server in the folder that it is in. */
  revealLog: { in: z.object({ service: serviceRef, run: logRun }), out: nothing },
  /** Whether something that a person wrote is in the page alone, which is then kept while it is hidden. */
  keep: { in: z.boolean(), out: nothing },
  /** Of the window under the icon: its button was pressed, or Escape, which nothing in the page took. */
  hide: { in: nothing, out: nothing },
  /** Opens the same as a window of its own, in place of this page; not where a person wants to keep what they wrote here. */
  tearOff: { in: lookedAt, out: nothing },
  /** Whether the page has the keyboard focus. */
  focus: { in: z.boolean(), out: nothing },
}

/** Every verb: `in` is what the page says with it, `out` the type of what it is answered. */
export const verbs = {
  snapshot: { in: nothing, out: z.custom<AgentSnapshot>() },
  command: { in: commandRequest, out: z.custom<CommandResult>() },
  query: { in: z.object({ id, query }), out: z.custom<Answer>() },
  /** Has it pushed to the page until it leaves; every value carries the id. */
  listen: { in: z.object({ id, request: listenRequest }), out: nothing },
  /** Nobody waits any longer for what has the id. */
  leave: { in: z.object({ id }), out: nothing },
  ...appVerbs,
}
type Verbs = typeof verbs
export type Verb = keyof Verbs
export type AppVerb = keyof typeof appVerbs

/** What is said with a verb, checked. */
export type Said<V extends Verb> = z.output<Verbs[V]['in']>
type Answered<V extends Verb> = z.output<Verbs[V]['out']>
type Content<T> = undefined extends T ? [] : [content: T]

export type ChosenFile = Said<'chooseFile'>
export type SystemPane = Said<'openPane'>
export type PowerRuleChange = Said<'changePowerRule'>
export type UpdateAction = Said<'update'>
export type LookedAt = Said<'tearOff'>

/** Each verb as the page calls it. */
export type PageVerbs<V extends Verb = Verb> = {
  readonly [K in V]: (...content: Content<z.input<Verbs[K]['in']>>) => Promise<BridgeReply<Answered<K>>>
}
export type AppBridge = PageVerbs<AppVerb>

/** Each verb as it is carried out. Throws a LinkError where it is not. */
export type VerbWork<V extends Verb = Verb> = {
  readonly [K in V]: (...content: Content<Said<K>>) => Promise<Answered<K>> | Answered<K>
}

/** From main to the page, of what the page listens to. */
export type Push =
  | { readonly id: string; readonly item: AgentSnapshot | StreamItem }
  /** Ends the stream of this id. */
  | { readonly id: string; readonly failure: LinkFailure }

/**
 * What the app's preload puts on `window.metalbar`, as far as it can be copied between two JavaScript worlds, where an error loses its class
 * and everything but its message.
 */
export interface Bridge {
  ask(verb: Verb, content?: unknown): Promise<BridgeReply<never>>
  onPush(take: (push: Push) => void): void
}

/** The verbs as the page calls them. */
export const verbsOver = (bridge: Bridge): PageVerbs =>
  Object.fromEntries(
    Object.keys(verbs).map((verb) => [verb, (content?: unknown) => bridge.ask(verb as Verb, content)]),
  ) as unknown as PageVerbs
