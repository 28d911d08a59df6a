import type { Command } from '../../../contract/commands.ts'
import type { Models } from '../../models/models.ts'
import { done, refused, type Outcome } from './results.ts'

export function cancelPull(
  { models }: { models: Models },
  { model }: Extract<Command, { name: 'cancelPull' }>,
): Outcome {
  return Promise.resolve(
    models.cancelPull(model)
      ? done(`The pull of ${model} is cancelled; what has arrived is kept, and the next pull goes on from there.`)
      : refused(`No pull of ${model} is under way.`),
  )
}
