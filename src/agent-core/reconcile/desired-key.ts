import type { DesiredServer } from './reading.ts'

/** Whatever the answer to a start depends on that a person can change. */
export function desiredKey({ digest, model, spec }: DesiredServer): string {
  const { memoryBudget, memoryFraction } = model.hardware ?? {}
  return JSON.stringify([digest, memoryBudget, memoryFraction, spec.priority])
}
