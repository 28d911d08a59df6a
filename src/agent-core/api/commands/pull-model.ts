import type { Command } from '../../../contract/commands.ts'
import type { Models } from '../../models/models.ts'
import { modelNameOf } from '../../models/pulls.ts'
import { accepted, refused, type Outcome } from './results.ts'

/** Begins a download without a service; the snapshot tells how it goes. */
export function pullModel({ models }: { models: Models }, command: Extract<Command, { name: 'pullModel' }>): Outcome {
  const { source, quantization, format, model = modelNameOf(source) } = command
  if (model === '') return Promise.resolve(refused(`No name can be made of ${source}: give one with --name.`))
  const { started, message } = models.pull({ model, source, quantization, format })
  return Promise.resolve(started ? accepted(message) : refused(message))
}
