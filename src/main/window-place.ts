/** A part of the window to turn to; of the settings also one of its fields. */
export type WindowPlace =
  { readonly view: WindowView; readonly field?: 'hostAddress' | 'updates' } | { readonly service: string }

export type WindowView = 'services' | 'models' | 'activity' | 'settings'

/** As the page reads it in its address. */
export function fragmentOf(at: WindowPlace | undefined): string {
  if (!at) return ''
  if ('service' in at) return `#service/${encodeURIComponent(at.service)}`
  return at.field === undefined ? `#${at.view}` : `#${at.view}/${at.field}`
}
