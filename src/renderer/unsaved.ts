import { emptyAddition } from './addition.ts'
import type { WindowState, WindowStore } from './store.ts'

/** What a person wrote and nothing but this page has: settings that are not applied, a model that is not created. */
const hasUnsaved = ({ draft, addition }: Pick<WindowState, 'draft' | 'addition'>): boolean => {
  const { created, ...written } = addition
  const isWritten = Object.entries(written).some(
    ([name, value]) => value !== emptyAddition[name as keyof typeof written],
  )
  return Object.keys(draft).length > 0 || (created === undefined && isWritten)
}

/** Says so whenever that changes. */
export function tellUnsaved(store: WindowStore, tell: (hasIt: boolean) => void): void {
  store.subscribe((now, before) => {
    const hasIt = hasUnsaved(now)
    if (hasIt !== hasUnsaved(before)) tell(hasIt)
  })
}
