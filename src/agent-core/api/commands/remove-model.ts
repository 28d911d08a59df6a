import type { Command } from '../../../contract/commands.ts'
import { formatBytes } from '../../../contract/format.ts'
import type { Models } from '../../models/models.ts'
import { ModelError } from '../../models/errors.ts'
import { done, failed, refused, type Outcome } from './results.ts'

export async function removeModel(
  { models }: { models: Models },
  { model }: Extract<Command, { name: 'removeModel' }>,
): Outcome {
  try {
    const outcome = await models.remove(model)
    return outcome.removed
      ? done(`The model ${model} is deleted: ${formatBytes(outcome.bytes)} on the disk.`)
      : refused(outcome.message)
  } catch (error) {
    if (error instanceof ModelError) return failed(error.message)
    throw error
  }
}
