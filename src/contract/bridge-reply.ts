import type { LinkFailure } from './link-failure.ts'

export type BridgeReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: LinkFailure }
