import type { Command } from 'commander'
import { z } from 'zod'
import { modelNameOf } from '../../agent-core/models/pulls.ts'
import { formatBytes } from '../../contract/format.ts'
import type { StoredModelView } from '../../contract/models.ts'
import { VerbError } from '../agent-session.ts'
import { exitCodes, type CliIo } from '../io.ts'
import { DownloadProgress } from '../download-progress.ts'
import { sendTo, withModels, type ModelsAccess } from '../models-access.ts'
import { cleanText } from '../../contract/clean-text.ts'
import { columns } from '../text.ts'
import { group } from './node-verbs.ts'
import { agentVerb, type VerbContext } from './verb.ts'

const storeOption = ['--model-store <folder>', 'the model store, where no agent runs'] as const

/** The content of the model store, with an agent or, as far as that is safe, without one. */
export function modelsVerb(context: VerbContext): Command {
  const list = agentVerb('list', 'what is in the model store, who uses it, and what is left of the disk', context)
    .option(...storeOption)
    .action((options: unknown) => withModels(context, options, (access, { json }) => show(access, context.io, json)))
  const pull = agentVerb('pull', 'download a model before any service wants it', context)
    .argument('<source>', 'as in spec.source of a Model, such as hf://owner/name or https://host/file.gguf')
    .option('--name <name>', 'of the Model that will use it; made of the source where it is left out')
    .option('--quantization <name>', 'which of the files of a repository, such as Q4_K_M')
    .option('--format <name>', 'of the model, such as gguf or mlx')
    .option(...storeOption)
    .action((source: string, options: unknown) => {
      const { name, quantization, format } = pullOptions.parse(options)
      const model = name ?? modelNameOf(source)
      if (model === '') throw new VerbError(`No name can be made of ${cleanText(source)}: give one with --name.`)
      const selection = { ...(quantization !== undefined && { quantization }), ...(format !== undefined && { format }) }
      return withModels(context, options, (access, { json }) =>
        pullModel(access, { source, model, ...selection }, { io: context.io, json }),
      )
    })
  const remove = agentVerb('rm', 'delete a model from the store; refused while a service uses it', context)
    .argument('<name>', 'as metal-agent models lists it')
    .option(...storeOption)
    .action((model: string, options: unknown) =>
      withModels(context, options, (access, { json }) =>
        sendTo(access, { name: 'removeModel', model }, { io: context.io, json }),
      ),
    )
  const prune = agentVerb('prune', 'list what no service uses, and with --yes delete it', context)
    .option('-y, --yes', 'delete it')
    .option(...storeOption)
    .action((options: unknown) => {
      const { yes } = z.object({ yes: z.boolean().default(false) }).parse(options)
      return withModels(context, options, (access, { json }) => pruneModels(access, { yes, io: context.io, json }))
    })
  const cancel = agentVerb('cancel', 'cancel a pull; what has arrived is kept', context)
    .argument('<name>', 'of the model')
    .option(...storeOption)
    .action((model: string, options: unknown) =>
      withModels(context, options, (access, { json }) =>
        sendTo(access, { name: 'cancelPull', model }, { io: context.io, json }),
      ),
    )
  return group('models', 'show, fetch and delete the models of this machine', [list, pull, remove, prune, cancel])
}

const pullOptions = z.object({
  name: z.string().optional(),
  quantization: z.string().optional(),
  format: z.string().optional(),
})

async function show(access: ModelsAccess, io: CliIo, json: boolean): Promise<number> {
  const view = await access.view()
  if (json) {
    io.stdout.write(`${JSON.stringify(view)}\n`)
    return exitCodes.done
  }
  if (view.models.length > 0) io.stdout.write(columns(headings, view.models.map(rowOf)))
  else io.stdout.write('There are no models in the store.\n')
  const free = view.freeBytes === undefined ? '' : `, ${formatBytes(view.freeBytes)} free`
  const reserve = view.reserveBytes === 0 ? '' : `, of which ${formatBytes(view.reserveBytes)} are never used`
  io.stdout.write(`\n${view.directory}${free}${reserve}\n`)
  if (view.problem !== undefined) io.stderr.write(`metal-agent: ${view.problem}\n`)
  return exitCodes.done
}

const headings = ['NAME', 'STATE', 'SIZE', 'FILES', 'KIND', 'USED BY', 'LAST USED', 'SOURCE']

function rowOf(model: StoredModelView): string[] {
  const { architecture, quantization, usedBy, lastUsedAt, source, path } = model
  return [
    model.name || '-',
    model.state,
    formatBytes(model.sizeBytes),
    String(model.files),
    [architecture, quantization].filter((word) => word !== undefined).join(' ') || '-',
    usedBy.join(', ') || '-',
    lastUsedAt?.slice(0, 16).replace('T', ' ') ?? '-',
    source || path,
  ]
}

interface Answering {
  readonly io: CliIo
  readonly json: boolean
}

/** A terminal is shown a bar, everything else a line now and then. Interrupted, what has arrived is kept. */
async function pullModel(
  access: ModelsAccess,
  pull: { readonly source: string; readonly model: string; readonly quantization?: string; readonly format?: string },
  { io, json }: Answering,
): Promise<number> {
  const begun = await access.command({ name: 'pullModel', ...pull })
  if (begun.outcome !== 'accepted') {
    io.stderr.write(`metal-agent: ${begun.message}\n`)
    return exitCodes.refused
  }
  const shown = new DownloadProgress(json ? { ...io, stdout: { write: () => undefined } } : io)
  shown.say(begun.message)
  const pressed = { interrupt: false }
  const interrupt = (): void => {
    pressed.interrupt = true
    void access.command({ name: 'cancelPull', model: pull.model }).catch(() => undefined) // the download's end tells the result
  }
  process.once('SIGINT', interrupt)
  try {
    const end = await access.untilEnded(pull.model, (download) => shown.show(download))
    if (json) io.stdout.write(`${JSON.stringify(end)}\n`)
    shown.end()
    if (end.state === 'done') {
      shown.say(end.message)
      return exitCodes.done
    }
    io.stderr.write(`metal-agent: ${end.message}\n`)
    return pressed.interrupt ? interruptedCode : exitCodes.failed
  } finally {
    process.removeListener('SIGINT', interrupt)
  }
}

/** As shells say that SIGINT ended something. */
const interruptedCode = 130

async function pruneModels(access: ModelsAccess, { yes, io, json }: Answering & { yes: boolean }): Promise<number> {
  const result = await access.command({ name: 'pruneModels', dryRun: !yes })
  if (json) io.stdout.write(`${JSON.stringify(result)}\n`)
  else if (result.outcome !== 'done') io.stderr.write(`metal-agent: ${result.message}\n`)
  else {
    io.stdout.write(`${result.message}\n`)
    const isNothing = (await access.view()).models.every(({ prunable }) => prunable === undefined)
    if (!yes && !isNothing) io.stdout.write('Nothing was deleted: repeat it with --yes.\n')
  }
  return result.outcome === 'done' ? exitCodes.done : exitCodes.failed
}
