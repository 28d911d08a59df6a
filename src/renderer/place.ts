import { viewNames, type WindowStore } from './store.ts'

const service = '#service/'

/** Turns the window to what the app's menu names: `#settings`, or `#service/` and a uid. */
export function showPlace(store: WindowStore, fragment: string): void {
  const { show, select } = store.getState()
  const view = viewNames.find((name) => fragment === `#${name}`)
  if (view) show(view)
  else if (fragment.startsWith(service)) select(decodeURIComponent(fragment.slice(service.length)))
}
