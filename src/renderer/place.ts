import { windowViews } from '../contract/app-bridge.ts'
import type { WindowStore } from './store.ts'

const service = '#service/'

/**
 * Turns the window to what the app names: `#settings`, `#settings/` and the id of a field, or `#service/` and a uid; behind a `?` the
 * number of the turn.
 */
export function showPlace(
  store: WindowStore,
  address: string,
  page: Pick<Document, 'getElementById'> = document,
): void {
  const [fragment = ''] = address.split('?')
  const { show, select } = store.getState()
  const [place = '', field] = fragment.startsWith(service) ? [] : fragment.split('/')
  const view = windowViews.find((name) => place === `#${name}`)
  if (view) {
    show(view)
    if (field !== undefined) focusWhenThere(field, page)
  } else if (fragment.startsWith(service)) select(decodeURIComponent(fragment.slice(service.length)))
}

/** What is asked of the agent first is drawn later. */
const lookLimitMs = 3_000

function focusWhenThere(id: string, page: Pick<Document, 'getElementById'>): void {
  const since = performance.now()
  const look = () => {
    const found = page.getElementById(id)
    found?.scrollIntoView({ block: 'center' })
    found?.focus()
    if (!found && performance.now() - since < lookLimitMs) requestAnimationFrame(look)
  }
  requestAnimationFrame(look)
}
