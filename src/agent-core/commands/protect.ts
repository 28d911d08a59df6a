import { notAvailable, type Outcome } from './results.ts'

export function protect(): Outcome {
  return Promise.resolve(notAvailable('Nothing needs protection yet: eviction under memory pressure is not built.'))
}
