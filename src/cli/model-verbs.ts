import type { Command } from 'commander'
import { z } from 'zod'
import { modelNameOf } from '../agent-core/models/pulls.ts'
import { refKey } from '../agent-core/util/object-key.ts'
import { cleanText } from '../contract/clean-text.ts'
import { formatByteRate, formatBytes, formatSpan } from '../contract/format.ts'
import { applicationYaml, inCatalogue, modelApplication, type ModelApplication } from '../contract/model-application.ts'
import type { DownloadView, StoredModelView } from '../contract/models.ts'
import { mostSlots, mostTokens } from '../contract/names.ts'
import { percentOf, type Progress, timeLeftOf } from '../contract/service.ts'
import type { AgentClient } from '../serve/client/agent-client.ts'
import {
  agentVerb,
  countOption,
  group,
  ifAgentRuns,
  run,
  sayingLinkErrors,
  send,
  serviceNamed,
  VerbError,
  type VerbContext,
} from './agent-session.ts'
import { columns, eraseLine, exitCodes, type CliIo } from './io.ts'

/** The content of the model store. */
export function modelsVerb(context: VerbContext): Command {
  const list = agentVerb(
    'list',
    'list the model store: its models, the services that use them, and the free disk space',
    context,
  ).action((options: unknown) => run(context, options, (agent, { json }) => show(agent, context.io, json)))
  const pull = agentVerb('pull', 'download a model before any service wants it', context)
    .argument('<source>', 'a source as in spec.source of a Model, such as hf://owner/name or https://host/file.gguf')
    .option('--name <name>', 'name of the Model that will use it; default: derived from the source')
    .option('--quantization <name>', 'quantization to take from a repository, such as Q4_K_M')
    .option('--format <name>', 'format of the model, such as gguf or mlx')
    .action((source: string, options: unknown) => {
      const { name, quantization, format } = pullOptions.parse(options)
      const model = name ?? modelNameOf(source)
      if (model === '') throw new VerbError(`No name can be derived from ${cleanText(source)}: give one with --name.`)
      const selection = { ...(quantization !== undefined && { quantization }), ...(format !== undefined && { format }) }
      return run(context, options, (agent, { json }) =>
        pullModel(agent, { source, model, ...selection }, { io: context.io, json }),
      )
    })
  const remove = agentVerb('rm', 'delete a model from the store; refused while a service uses it', context)
    .argument('<name>', 'name as metal-agent models lists it')
    .action((model: string, options: unknown) =>
      run(context, options, (agent, { json }) => send(agent, { name: 'removeModel', model }, { io: context.io, json })),
    )
  const prune = agentVerb('prune', 'list the models that no service uses, and with --yes delete them', context)
    .option('-y, --yes', 'delete it')
    .action((options: unknown) => {
      const { yes } = z.object({ yes: z.boolean().default(false) }).parse(options)
      return run(context, options, (agent, { json }) => pruneModels(agent, { yes, io: context.io, json }))
    })
  const cancel = agentVerb('cancel', 'cancel a download; what has arrived is kept', context)
    .argument('<name>', 'the model of a pull, or the service whose model is downloaded')
    .action((name: string, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const fetching = (await agent.snapshot()).services.filter(({ state }) => state === 'fetching')
        const isOfService = fetching.some((one) => name === one.name || name === refKey(one))
        return send(
          agent,
          isOfService
            ? { name: 'cancelDownload', service: serviceNamed(name, fetching) }
            : { name: 'cancelPull', model: name },
          { io: context.io, json },
        )
      }),
    )
  return group('models', 'show, fetch and delete the models of this machine', [list, pull, remove, prune, cancel])
}

const pullOptions = z.object({
  name: z.string().optional(),
  quantization: z.string().optional(),
  format: z.string().optional(),
})

async function show(agent: AgentClient, io: CliIo, json: boolean): Promise<number> {
  const view = await agent.query({ name: 'models' })
  if (json) {
    io.stdout.write(`${JSON.stringify(view)}\n`)
    return exitCodes.done
  }
  if (view.models.length > 0) io.stdout.write(columns(headings, view.models.map(rowOf)))
  else io.stdout.write('There are no models in the store.\n')
  const free = view.freeBytes === undefined ? '' : `, ${formatBytes(view.freeBytes)} free`
  const reserve = view.reserveBytes === 0 ? '' : `, of which ${formatBytes(view.reserveBytes)} stay in reserve`
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
  agent: AgentClient,
  pull: { readonly source: string; readonly model: string; readonly quantization?: string; readonly format?: string },
  { io, json }: Answering,
): Promise<number> {
  const begun = await agent.command({ name: 'pullModel', ...pull })
  if (begun.outcome !== 'accepted') {
    io.stderr.write(`metal-agent: ${begun.message}\n`)
    return exitCodes.refused
  }
  const shown = new DownloadProgress(json ? { ...io, stdout: { write: () => undefined } } : io)
  shown.say(begun.message)
  const pressed = { interrupt: false }
  const interrupt = (): void => {
    pressed.interrupt = true
    void agent.command({ name: 'cancelPull', model: pull.model }).catch(() => undefined) // the download's end tells the result
  }
  process.once('SIGINT', interrupt)
  try {
    const end = await endOf(agent, pull.model, (download) => shown.show(download))
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

/** Reports the progress of a pull, and resolves with its end. Throws LinkError. */
const endOf = (agent: AgentClient, model: string, onNews: (download: DownloadView) => void): Promise<DownloadView> =>
  new Promise((resolve, reject) => {
    const leave = agent.follow({
      next: ({ downloads }) => {
        const download = downloads.find(({ name }) => name === model)
        if (download === undefined) return
        if (!['done', 'failed', 'cancelled'].includes(download.state)) {
          onNews(download)
          return
        }
        leave()
        resolve(download)
      },
      end: reject,
    })
  })

/** As shells say that SIGINT ended something. */
const interruptedCode = 130

async function pruneModels(agent: AgentClient, { yes, io, json }: Answering & { yes: boolean }): Promise<number> {
  const result = await agent.command({ name: 'pruneModels', dryRun: !yes })
  if (json) io.stdout.write(`${JSON.stringify(result)}\n`)
  else if (result.outcome !== 'done') io.stderr.write(`metal-agent: ${result.message}\n`)
  else {
    io.stdout.write(`${result.message}\n`)
    const isNothing = (await agent.query({ name: 'models' })).models.every(({ prunable }) => prunable === undefined)
    if (!yes && !isNothing) io.stdout.write('Nothing was deleted: run it again with --yes.\n')
  }
  return result.outcome === 'done' ? exitCodes.done : exitCodes.failed
}

const addOptions = z.object({
  name: z.string().optional(),
  namespace: z.string().optional(),
  quantization: z.string().optional(),
  sourceSecret: z.string().optional(),
  context: z.number().optional(),
  slots: z.number().optional(),
  yaml: z.boolean().default(false),
})

/** Makes a Model and an InferenceService in the cluster, or prints them. */
export function addVerb(context: VerbContext): Command {
  return agentVerb(
    'add',
    'add a model to the cluster to serve it on this machine; metal-agent fit tells first whether it fits',
    context,
  )
    .argument(
      '<source>',
      'a source such as hf://owner/name or https://…/model.gguf, or a well-known name such as llama-3.1-8b',
    )
    .option('--name <name>', 'name of the service and its Model; default: derived from the source')
    .option('-n, --namespace <namespace>', 'namespace; default: the one that the agent watches, or default')
    .option('--quantization <name>', 'quantization to take from a repository, such as Q4_K_M')
    .option('--source-secret <name>', 'Secret of the namespace whose Hugging Face token opens a private source')
    .addOption(countOption('--context <tokens>', 'context size in tokens; default: that of the agent', mostTokens))
    .addOption(countOption('--slots <number>', 'requests at once', mostSlots))
    .option('--yaml', 'only print the YAML that would be applied')
    .action((source: string, options: unknown) => add(context, source, options))
}

/** With `--yaml` no agent has to run: one that does says which namespace is meant where none is given. */
async function add(context: VerbContext, source: string, options: unknown): Promise<void> {
  const given = addOptions.parse(options)
  const namespaceOf = async (agent: AgentClient) => (await agent.snapshot()).cluster.namespace
  if (given.yaml) {
    const code = await sayingLinkErrors(context.io, async () => {
      const namespace = given.namespace ?? (await ifAgentRuns(context, options, namespaceOf))
      context.io.stdout.write(applicationYaml(applicationOf(source, given, namespace)))
      return exitCodes.done
    })
    context.end(code)
    return
  }
  await run(context, options, async (agent, { json }) => {
    const application = applicationOf(source, given, given.namespace ?? (await namespaceOf(agent)))
    return send(agent, { name: 'applyModel', application }, { io: context.io, json })
  })
}

/** Throws VerbError. */
function applicationOf(
  source: string,
  { name, quantization, sourceSecret, context: contextSize, slots }: z.infer<typeof addOptions>,
  namespace = 'default',
): ModelApplication {
  const parsed = modelApplication.safeParse({
    name: name ?? inCatalogue(source)?.name ?? modelNameOf(source),
    ...{ namespace, source, quantization, sourceSecret, contextSize, parallelSlots: slots },
  })
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new VerbError(`${issue?.path.join('.') ?? ''} ${issue?.message ?? 'is not valid'}.`.trim())
}

const barWidth = 30

/** The progress of a download: one line that changes on a terminal, otherwise a line for each tenth and each new sentence. */
export class DownloadProgress {
  readonly #io: CliIo
  #isOpen = false
  #lastLine = ''

  constructor(io: CliIo) {
    this.#io = io
  }

  say(sentence: string): void {
    this.end()
    this.#io.stdout.write(`${cleanText(sentence)}\n`)
  }

  show({ progress, message }: DownloadView): void {
    const isTerminal = this.#io.stdout.isTTY === true
    const sentence = cleanText(progress?.message ?? message)
    if (isTerminal) {
      const line = progress === undefined || progress.phase === 'waiting' ? sentence : barOf(progress)
      this.#io.stdout.write(`${eraseLine}${line.slice(0, Math.max(20, (this.#io.stdout.columns ?? 80) - 1))}`)
      this.#isOpen = true
      return
    }
    const news = progress === undefined || progress.phase !== undefined ? sentence : tenthOf(progress)
    if (news === this.#lastLine) return
    this.#lastLine = news
    this.#io.stdout.write(`${news}\n`)
  }

  /** The line that changes is left behind. */
  end(): void {
    if (this.#isOpen) this.#io.stdout.write('\n')
    this.#isOpen = false
  }
}

function barOf(progress: Progress): string {
  const { doneBytes, totalBytes = 0 } = progress
  const rate = formatByteRate(progress.bytesPerSecond)
  const percent = percentOf(progress)
  if (percent === undefined) return `${formatBytes(doneBytes)}  ${rate}`
  const filled = Math.round((percent / 100) * barWidth)
  const bar = `${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}`
  const leftMs = timeLeftOf(progress)
  const left = leftMs === undefined ? '' : `  ${formatSpan(leftMs)} left`
  return `[${bar}] ${percent} %  ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}  ${rate}${left}`
}

function tenthOf({ doneBytes, totalBytes }: Progress): string {
  if (totalBytes === undefined || totalBytes === 0) return 'Downloading.'
  return `${10 * Math.floor((10 * doneBytes) / totalBytes)} % of ${formatBytes(totalBytes)}`
}
