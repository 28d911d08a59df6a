import type { LookedAt } from '../contract/app-bridge.ts'

/** What the window is to show; of the settings also one of their fields. */
export type WindowPlace = LookedAt | { readonly view: 'settings'; readonly field: 'hostAddress' | 'updates' }

/** As the page reads it in its address. */
export function fragmentOf(at: WindowPlace | undefined): string {
  if (!at) return ''
  if ('service' in at) return `#service/${encodeURIComponent(at.service)}`
  return 'field' in at ? `#${at.view}/${at.field}` : `#${at.view}`
}
