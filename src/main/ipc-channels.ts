import type { LinkFailure } from '../contract/client.ts'
import type { Looker } from '../contract/client.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import type { StreamInput, StreamItem } from '../contract/log.ts'

/** Between the preload script and the main process; answered with a BridgeReply, all but the last. */
export const channels = {
  snapshot: 'agent:snapshot',
  command: 'agent:command',
  query: 'agent:query',
  /** Tells the agent that nobody waits for the answer. */
  withdraw: 'agent:withdraw',
  /** Begins a stream, whose values are then pushed. */
  listen: 'agent:listen',
  leave: 'agent:leave',
  /** As the verbs of the AppBridge, each. */
  appState: 'app:state',
  setHubToken: 'app:setHubToken',
  removeHubToken: 'app:removeHubToken',
  setLoginItem: 'app:setLoginItem',
  prefer: 'app:prefer',
  chooseFile: 'app:chooseFile',
  openPane: 'app:openPane',
  changePowerRule: 'app:changePowerRule',
  revealLog: 'app:revealLog',
  update: 'app:update',
  setCommandLink: 'app:setCommandLink',
  moveToApplications: 'app:moveToApplications',
  traces: 'app:traces',
  uninstall: 'app:uninstall',
  /** Esc was pressed, and nothing in the page took it. */
  escape: 'window:escape',
  /** Whether the page has the keyboard focus. */
  focus: 'window:focus',
  /** Whether the page has what must not be lost. */
  keep: 'window:keep',
  hide: 'window:hide',
  tearOff: 'window:tearOff',
  /** From main to the page. */
  push: 'agent:push',
} as const

export interface ListenRequest {
  /** Chosen by the page; repeated in every value pushed. */
  readonly id: string
  readonly request: { readonly name: 'snapshot'; readonly looker?: Looker } | StreamInput
}

export type Push =
  | { readonly id: string; readonly item: AgentSnapshot | StreamItem }
  /** Ends the stream of this id. */
  | { readonly id: string; readonly failure: LinkFailure }
