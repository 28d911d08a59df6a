import type { AgentSnapshot } from '../contract/snapshot.ts'

/** What tells that the store holds other models, or that others use them; the progress of a download does not. */
export const modelSigns = ({ services, downloads }: Pick<AgentSnapshot, 'services' | 'downloads'>): string =>
  JSON.stringify([
    services.map(({ namespace, name, model, state }) => [namespace, name, model, state]),
    downloads.map(({ name, source, state }) => [name, source, state]),
  ])
