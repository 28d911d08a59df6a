import type { StoredModelView } from '../contract/models.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'

/** What Delete of one model takes: everything of its name, of every namespace, and what is left of its downloads. */
export interface Removal {
  readonly bytes: number
  readonly entries: number
}

/** Absent where a service uses anything of that name, or where it is not known that nobody uses or fetches it. */
export function removalOf(
  name: string,
  models: readonly StoredModelView[],
  { services, downloads }: Pick<AgentSnapshot, 'services' | 'downloads'>,
): Removal | undefined {
  if (name === '') return undefined
  const entries = models.filter((model) => model.name === name)
  const isFetched =
    services.some(({ model }) => model === name) ||
    downloads.some((one) => one.name === name && (one.state === 'waiting' || one.state === 'downloading'))
  // What prune would delete is known to be free; of a partial download only a download of the same name tells whether it continues.
  const isFree = ({ usedBy, prunable, state }: StoredModelView) =>
    usedBy.length === 0 && (prunable !== undefined || (state === 'partial' && !isFetched))
  if (entries.length === 0 || !entries.every(isFree)) return undefined
  return { bytes: entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0), entries: entries.length }
}

/** What tells that the store holds other models, or that others use them; the progress of a download does not. */
export const modelSigns = ({ services, downloads }: Pick<AgentSnapshot, 'services' | 'downloads'>): string =>
  JSON.stringify([
    services.map(({ namespace, name, model, state }) => [namespace, name, model, state]),
    downloads.map(({ name, source, state }) => [name, source, state]),
  ])
