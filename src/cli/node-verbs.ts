import { hostname } from 'node:os'
import type { Command } from 'commander'
import { z } from 'zod'
import { leaseNameOf } from '../agent-core/publishing/lease-content.ts'
import { refKey } from '../agent-core/util/object-key.ts'
import { LinkError } from '../contract/client.ts'
import { rightsCommands, type RightsPlace } from '../contract/cluster.ts'
import { contextDoubt, type CommandInput, type ServiceRef } from '../contract/commands.ts'
import type { ServiceState, ServiceView } from '../contract/service.ts'
import type { AgentClient } from '../serve/client/agent-client.ts'
import {
  agentVerb,
  group,
  ifAgentRuns,
  namespaceIn,
  namespaceOption,
  run,
  sayingLinkErrors,
  send,
  sendAbout,
  sendPlain,
  serviceNamed,
  VerbError,
  type VerbContext,
} from './agent-session.ts'
import { columns, exitCodes } from './io.ts'
import { runtimesCommand } from './runtimes.ts'

/** What concerns the machine as a whole. */
export function nodeVerbCommands(context: VerbContext): Command[] {
  return [
    agentVerb('pause', 'pause this machine: withdraw every endpoint, and keep the models in memory', context).action(
      (options: unknown) => sendPlain(context, options, { name: 'pauseNode' }),
    ),
    agentVerb('resume', 'undo a pause', context).action((options: unknown) =>
      sendPlain(context, options, { name: 'resumeNode' }),
    ),
    agentVerb('shutdown', 'stop the agent: withdraw, let requests finish, stop the servers', context)
      .option('--keep-serving', 'leave the servers and their endpoints as they are, for the next agent to adopt')
      .action((options: unknown) => {
        const { keepServing } = z.object({ keepServing: z.boolean().default(false) }).parse(options)
        return sendPlain(context, options, { name: 'shutdown', keepServing })
      }),
    runtimesCommand(context),
    contextCommand(context),
    hostAddressCommand(context),
  ]
}

function contextCommand(context: VerbContext): Command {
  const list = agentVerb('list', 'list the contexts of the kubeconfig', context).action((options: unknown) =>
    run(context, options, async (agent, { json }) => {
      const answer = await agent.query({ name: 'contexts' })
      const rows = answer.contexts.map(({ name, server, inUse, isDefault }) => [
        inUse ? '*' : isDefault ? '(default)' : '',
        name,
        server,
      ])
      context.io.stdout.write(json ? `${JSON.stringify(answer)}\n` : columns(['', 'NAME', 'SERVER'], rows))
      return 0
    }),
  )
  const use = agentVerb('use', 'serve the cluster of another context', context)
    .argument('<context>', 'name of the context in the kubeconfig')
    .option(
      '--anyway',
      'even if its name says production, its cluster does not answer, or LLMKube is not installed there',
    )
    .action((name: string, options: unknown) => {
      const { anyway } = z.object({ anyway: z.boolean().default(false) }).parse(options)
      const accept = anyway ? contextDoubt.options : []
      return sendPlain(context, options, { name: 'selectContext', context: name, accept })
    })
  const reload = agentVerb('reload', 'read the kubeconfig again', context).action((options: unknown) =>
    sendPlain(context, options, { name: 'reloadKubeconfig' }),
  )
  return group('context', 'show or choose the Kubernetes context', [list, use, reload])
}

function hostAddressCommand(context: VerbContext): Command {
  const list = agentVerb('list', 'list the addresses of this machine', context).action((options: unknown) =>
    run(context, options, async (agent, { json }) => {
      const answer = await agent.query({ name: 'hostAddresses' })
      const rows = answer.addresses.map(({ address, interface: from, inUse, unfit = '' }) => [
        inUse ? '*' : '',
        address,
        from,
        unfit,
      ])
      const table = columns(['', 'ADDRESS', 'INTERFACE', 'NOT CHOSEN BECAUSE'], rows)
      context.io.stdout.write(json ? `${JSON.stringify(answer)}\n` : `${answer.message}\n\n${table}`)
      return 0
    }),
  )
  const set = agentVerb('set', 'publish an address, or "automatic" to let the agent choose', context)
    .argument('<address>', 'an address of this machine, or automatic')
    .action((address: string, options: unknown) => sendPlain(context, options, { name: 'setHostAddress', address }))
  return group('host-ip', 'show or choose the address at which pods reach this machine', [list, set])
}

interface ServiceVerb {
  readonly name: string
  readonly does: string
  readonly command: (service: ServiceRef) => CommandInput
}

const serviceVerbs: readonly ServiceVerb[] = [
  { name: 'start', does: 'start a stopped service again', command: (service) => ({ name: 'start', service }) },
  {
    name: 'restart',
    does: 'replace the server with a new one; requests in flight may finish',
    command: (service) => ({ name: 'restart', service }),
  },
  {
    name: 'evict',
    does: 'take a model out of memory here, until it is brought back; another machine may take the service',
    command: (service) => ({ name: 'evict', service }),
  },
  {
    name: 'bring-back',
    does: 'bring back what was stopped or evicted on this machine',
    command: (service) => ({ name: 'bringBack', service }),
  },
  {
    name: 'delete',
    does: 'delete a service from the cluster; its Model too, if both were added together and no other service uses it',
    command: (service) => ({ name: 'deleteModel', service }),
  },
]

const serviceVerb = (name: string, does: string, context: VerbContext): Command =>
  agentVerb(name, does, context)
    .argument('<service>', 'name of the service, or namespace/name')
    .option(...namespaceOption)

export function serviceVerbCommands(context: VerbContext): Command[] {
  const others = serviceVerbs.map(({ name, does, command }) =>
    serviceVerb(name, does, context).action((service: string, options: unknown) =>
      sendAbout(context, service, options, command),
    ),
  )
  return [stopVerb(context), ...others]
}

const stopOptions = z.object({ here: z.boolean().default(false), now: z.boolean().default(false) })

function stopVerb(context: VerbContext): Command {
  return serviceVerb('stop', 'suspend a service in the cluster; requests in flight may finish', context)
    .option('--here', 'only on this machine, whatever the cluster says')
    .option('--now', 'cut off requests in flight, also of a server that already stops')
    .action((name: string, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const { here, now } = stopOptions.parse(options)
        const { services } = await agent.snapshot()
        const service = serviceNamed(name, services, namespaceIn(options))
        const answering = { io: context.io, json }
        const isStopping = shownIn(services, service)?.state === 'stopping'
        if (!now || !isStopping) {
          const code = await send(agent, { name: 'stop', service, scope: here ? 'here' : 'cluster' }, answering)
          if (!now || code !== exitCodes.done) return code
        }
        if (await untilDraining(agent, service)) return send(agent, { name: 'skipDrain', service }, answering)
        if (isStopping && !json) context.io.stdout.write(`${refKey(service)} has stopped.\n`)
        return exitCodes.done
      }),
    )
}

const shownIn = (services: readonly ServiceView[], { namespace, name }: ServiceRef): ServiceView | undefined =>
  services.find((one) => one.namespace === namespace && one.name === name)

/** Whether the server of a service that was told to stop came to wait for its requests; false where it stopped without. Throws LinkError. */
function untilDraining(agent: AgentClient, service: ServiceRef): Promise<boolean> {
  const mayDrain: readonly (ServiceState | undefined)[] = ['starting', 'ready', 'unready', 'stopping']
  return new Promise((resolve, reject) => {
    const leave = agent.follow({
      next: ({ services, figures }) => {
        const shown = shownIn(services, service)
        const isDraining = shown?.state === 'stopping' && figures[shown.uid]?.requestsInFlight !== undefined
        if (!isDraining && mayDrain.includes(shown?.state)) return
        leave()
        resolve(isDraining)
      },
      end: reject,
    })
  })
}

const given = z.object({
  admin: z.string().optional(),
  further: z.boolean().default(false),
  context: z.string().optional(),
  namespace: z.string().optional(),
  json: z.boolean().default(false),
})

/** Rights of the running agent's user, whatever it may do already; where none runs, of the user of the kubeconfig's context. */
export function rightsVerb(context: VerbContext): Command {
  return agentVerb('rights', 'print the commands that give the agent its rights in the cluster', context)
    .option('--admin <context>', 'context of an administrator who may grant them; default: left for you to fill in')
    .option('--further', 'include the optional rights')
    .option(
      '--context <context>',
      'context of the agent; default: that of the running agent, else the current one of the kubeconfig',
    )
    .option(
      '-n, --namespace <namespace>',
      'namespace that the agent watches, "" for all; default: that of the running agent, else default',
    )
    .action(async (options: unknown) => {
      const { admin, further: isAll, json, ...wanted } = given.parse(options)
      const { io } = context
      const code = await sayingLinkErrors(io, async () => {
        const { needed, further } = rightsCommands({ ...(await placeOf(context, options, wanted)), admin })
        const printed = isAll ? [needed, ...further] : [needed]
        io.stdout.write(json ? `${JSON.stringify(printed)}\n` : `${printed.join('\n\n')}\n`)
        return exitCodes.done
      })
      context.end(code)
    })
}

type Wanted = Pick<z.infer<typeof given>, 'context' | 'namespace'>

/** Throws VerbError where nothing says which context is meant. */
async function placeOf(context: VerbContext, options: unknown, wanted: Wanted): Promise<RightsPlace> {
  const cluster = wanted.context === undefined ? await agentsCluster(context, options) : undefined
  const name = wanted.context ?? cluster?.context ?? (await currentContext(context))
  const watched = cluster === undefined ? 'default' : cluster.namespace
  const namespace = wanted.namespace === undefined ? watched : wanted.namespace || undefined
  const lease = cluster ? cluster.lease : { namespace: namespace ?? 'default', name: leaseNameOf(hostname()) }
  return { context: name, namespace, lease }
}

async function agentsCluster(context: VerbContext, options: unknown): Promise<RightsPlace | undefined> {
  const cluster = await ifAgentRuns(context, options, async (agent) => (await agent.snapshot()).cluster)
  if (cluster?.context === '') throw new LinkError('refused', `The agent has no context yet. ${cluster.message}`)
  return cluster
}

async function currentContext({ io: { env } }: VerbContext): Promise<string> {
  const [{ KubeconfigError }, { listContexts }] = await Promise.all([
    import('../agent-core/kube/kubeconfig.ts'),
    import('../agent-core/kube/pinned-context.ts'),
  ])
  try {
    const { contexts, source } = await listContexts({ env })
    const current = contexts.find(({ isDefault }) => isDefault)
    if (current) return current.name
    throw new VerbError(`${source} has no current context: name one with --context.`)
  } catch (error) {
    if (error instanceof KubeconfigError) throw new VerbError(error.message, { cause: error })
    throw error
  }
}

export function uiVerb(context: VerbContext): Command {
  return agentVerb(
    'ui',
    'print an address that opens the window in a browser on this machine; it works once, within two minutes',
    context,
  )
    .option('--port <number>', 'on 127.0.0.1; default: any free one')
    .action((options: unknown) => {
      const port = portNumber(z.object({ port: z.string().default('0') }).parse(options).port)
      return run(context, options, async (agent, { json }) => {
        const url = await agent.openWindow(port)
        context.io.stdout.write(json ? `${JSON.stringify({ url })}\n` : `${url}\n`)
        return 0
      })
    })
}

function portNumber(text: string): number {
  const port = Number(text)
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port
  throw new VerbError(`--port must be a port number from 0 to 65535, not ${JSON.stringify(text)}.`)
}
