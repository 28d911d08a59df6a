import { accepted, done, failed, type Outcome, refused } from './command.ts'
import { ModelError } from '../models/errors.ts'
import type { Models } from '../models/models.ts'
import { modelNameOf } from '../models/pulls.ts'
import type { Command } from '../../contract/commands.ts'
import { formatBytes } from '../../contract/format.ts'

/** Begins a download without a service; the snapshot tells how it goes. */
export function pullModel({ models }: { models: Models }, command: Extract<Command, { name: 'pullModel' }>): Outcome {
  const { source, quantization, format, model = modelNameOf(source) } = command
  if (model === '') return Promise.resolve(refused(`No name can be derived from ${source}: give one with --name.`))
  const { started, message } = models.pull({ model, source, quantization, format })
  return Promise.resolve(started ? accepted(message) : refused(message))
}

export function cancelPull(
  { models }: { models: Models },
  { model }: Extract<Command, { name: 'cancelPull' }>,
): Outcome {
  return Promise.resolve(
    models.cancelPull(model)
      ? done(`The pull of ${model} is cancelled; what has arrived is kept, and the next pull continues from there.`)
      : refused(`No pull of ${model} is under way.`),
  )
}

export const removeModel = (
  { models }: { models: Models },
  { model }: Extract<Command, { name: 'removeModel' }>,
): Outcome =>
  saying(async () => {
    const outcome = await models.remove(model)
    return outcome.removed
      ? done(`The model ${model} is deleted: ${formatBytes(outcome.bytes)} on the disk.`)
      : refused(outcome.message)
  })

/** Deletes what no service uses, or says what that would be. */
export const pruneModels = (
  { models }: { models: Models },
  { dryRun }: Extract<Command, { name: 'pruneModels' }>,
): Outcome => saying(async () => done(await models.prune({ dryRun })))

/** A ModelError is the outcome of the command. */
const saying = (work: () => Outcome): Outcome =>
  work().catch((error: unknown) => {
    if (error instanceof ModelError) return failed(error.message)
    throw error
  })
