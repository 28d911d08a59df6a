import { z } from 'zod'

/** What the soak serves; nothing ever goes wrong with the first one's own server, specification or model. */
export const services = ['steady', 'red', 'green', 'sky-blue', 'violet', 'indigo'] as const
export type ServiceName = (typeof services)[number]

/** Served by mlx-server: a folder of this machine, and a repository of the Hub. */
export const mlxServices = ['red', 'green'] as const satisfies readonly ServiceName[]
export const isMlx = (name: ServiceName): boolean => mlxServices.some((one) => one === name)

/** Served by one Ollama, from one Model, with the same context: they share what is in memory. */
export const daemonServices = ['violet', 'indigo'] as const satisfies readonly ServiceName[]
export const isOfDaemon = (name: ServiceName): boolean => daemonServices.some((one) => one === name)
/** The Model that it serves. The services that neither Ollama nor mlx-server serves have GGUF files behind llama-server. */
export const modelOf = (name: ServiceName): ServiceName => (name === 'indigo' ? 'violet' : name)
/** What is changed of one of them is changed of all. */
export const together = (name: ServiceName): readonly ServiceName[] =>
  services.filter((one) => modelOf(one) === modelOf(name))
/** Those with a server of their own that may come to harm. */
export const harmable = services.filter((name) => name !== 'steady' && !isOfDaemon(name))

/** Their Models ask the source again and again whether it has newer content. */
export const refreshed = ['green', 'sky-blue'] as const satisfies readonly ServiceName[]

/** An InferenceService whose Service has the name of another's. */
export const twin = { name: 'sky.blue', of: 'sky-blue' } as const

/** What a person does to a service that memory pressure took out of memory. */
export const holds = ['stop', 'evict'] as const

/** Two agents of one cluster: the first runs all the time, the second comes and goes. */
export const agents = ['first', 'second'] as const
export type AgentName = (typeof agents)[number]

const ms = z.number().int().min(0)
const service = z.enum(services)
const agent = z.enum(agents)

export const refusable = ['endpointslices', 'services', 'endpoints', 'inferenceservices/status', 'events'] as const
/** `lost`: it is done, and the answer does not arrive. */
export const answers = [403, 409, 422, 429, 'lost'] as const

const kinds = [
  z.object({ kind: z.literal('killServer'), service }),
  z.object({ kind: z.literal('stopServer'), service, forMs: ms }),
  z.object({ kind: z.literal('killAgent'), agent, awayMs: ms }),
  z.object({ kind: z.literal('killAgentInStart'), afterMs: ms }),
  z.object({ kind: z.literal('terminateAgent'), awayMs: ms }),
  z.object({ kind: z.literal('stallApi'), forMs: ms }),
  z.object({ kind: z.literal('killApi'), awayMs: ms }),
  z.object({
    kind: z.literal('refuse'),
    resource: z.enum(refusable),
    answer: z.literal(answers),
    /** Of one object; absent = every one. */
    name: service.optional(),
    forMs: ms,
  }),
  z.object({ kind: z.literal('cutWatches') }),
  z.object({ kind: z.literal('stepClock'), agent, byMs: z.number().int() }),
  z.object({ kind: z.literal('fillDisk'), forMs: ms }),
  z.object({ kind: z.literal('readOnlyDisk'), forMs: ms }),
  z.object({
    kind: z.literal('deletePublished'),
    object: z.enum(['EndpointSlice', 'Service', 'Endpoints']),
    service,
  }),
  z.object({
    kind: z.literal('editPublished'),
    what: z.enum(['slice port', 'slice address', 'slice ready', 'Service port', 'Endpoints']),
    service,
  }),
  z.object({ kind: z.literal('deleteModel'), service, awayMs: ms }),
  z.object({ kind: z.literal('recreate'), service, awayMs: ms }),
  z.object({ kind: z.literal('edit'), service, contextSize: z.number().int() }),
  z.object({ kind: z.literal('takeBackEdit'), service, contextSize: z.number().int(), afterMs: ms }),
  z.object({ kind: z.literal('scaleToZero'), service, forMs: ms }),
  z.object({ kind: z.literal('secondAgent'), forMs: ms }),
  z.object({ kind: z.literal('pause'), agent, forMs: ms }),
  z.object({ kind: z.literal('evict'), agent, service, forMs: ms }),
  z.object({ kind: z.literal('restart'), service }),
  z.object({ kind: z.literal('noAddress'), agent, forMs: ms }),
  z.object({ kind: z.literal('memory'), availableMiB: z.number().int().min(0), forMs: ms }),
  /** So many files may be opened beside those that are. */
  z.object({ kind: z.literal('fdLimit'), agent, left: z.number().int().min(0), forMs: ms }),
  /** The source has another content, at a time at which the clock of the first agent is ahead. */
  z.object({ kind: z.literal('newContent'), service: z.enum(refreshed), aheadMs: ms, forMs: ms }),
  z.object({ kind: z.literal('twin'), forMs: ms }),
  z.object({ kind: z.literal('moveNamespace'), forMs: ms }),
  z.object({ kind: z.literal('prune'), agent }),
  z.object({ kind: z.literal('holdEvicted'), service, how: z.enum(holds), forMs: ms }),
  z.object({ kind: z.literal('killGateway') }),
  z.object({ kind: z.literal('stopGateway'), forMs: ms }),
  /** The next agent is of another version, and so is the gateway that it wants. */
  z.object({ kind: z.literal('updateAgent') }),
  /** Another program has it when the gateway wants it back. */
  z.object({ kind: z.literal('takeClientPort'), forMs: ms }),
  /** It comes back with its models, and none of them in memory. */
  z.object({ kind: z.literal('killDaemon'), awayMs: ms }),
  z.object({ kind: z.literal('hangDaemon'), forMs: ms }),
  /** As a daemon does that is short of memory itself. */
  z.object({ kind: z.literal('dropModels') }),
] as const

/** Something that happens to the agent, and when: so long after the one before it began. */
export const fault = z.intersection(z.object({ afterMs: ms }), z.object({ what: z.discriminatedUnion('kind', kinds) }))
export type Fault = z.infer<typeof fault>
export type FaultKind = Fault['what']['kind']

/** The services whose servers may well end or be replaced because of it. */
export function touched({ what }: Pick<Fault, 'what'>): readonly ServiceName[] {
  switch (what.kind) {
    case 'terminateAgent':
    case 'moveNamespace':
      return services
    case 'memory':
    case 'holdEvicted':
      return services.filter((name) => name !== 'steady')
    case 'killDaemon':
    case 'hangDaemon':
    case 'dropModels':
      return daemonServices
    case 'deleteModel':
    case 'edit':
    case 'takeBackEdit':
      return together(what.service)
    case 'killServer':
    case 'stopServer':
    case 'recreate':
    case 'scaleToZero':
    case 'evict':
    case 'restart':
    case 'newContent':
      return [what.service]
    case 'twin':
      return [twin.of]
    case 'killAgent':
    case 'killAgentInStart':
    case 'stallApi':
    case 'killApi':
    case 'refuse':
    case 'cutWatches':
    case 'stepClock':
    case 'fillDisk':
    case 'readOnlyDisk':
    case 'deletePublished':
    case 'editPublished':
    case 'secondAgent':
    case 'pause':
    case 'noAddress':
    case 'fdLimit':
    case 'prune':
    case 'killGateway':
    case 'stopGateway':
    case 'updateAgent':
    case 'takeClientPort':
      return []
  }
}

/** The services about which the agent has something else to say because of it. */
export const concerned = ({ what }: Pick<Fault, 'what'>): readonly ServiceName[] => {
  return 'service' in what ? together(what.service) : services
}
