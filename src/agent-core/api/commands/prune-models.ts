import type { Command } from '../../../contract/commands.ts'
import { ModelError } from '../../models/errors.ts'
import type { Models } from '../../models/models.ts'
import { done, failed, type Outcome } from './results.ts'

/** Deletes what no service uses, or says what that would be. */
export async function pruneModels(
  { models }: { models: Models },
  { dryRun }: Extract<Command, { name: 'pruneModels' }>,
): Outcome {
  try {
    return done(await models.prune({ dryRun }))
  } catch (error) {
    if (error instanceof ModelError) return failed(error.message)
    throw error
  }
}
