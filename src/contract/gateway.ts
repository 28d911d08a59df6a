import { z } from 'zod'
import { ipAddress } from './addresses.ts'

/** What an agent and its gateway say to each other over the gateway's socket: one JSON object a line, in both directions. */

/** Rises when one side could misread the other; an agent replaces a gateway that speaks another. */
export const gatewayProtocol = 3

/** The label of `client_proxy_requests_total`; those before `bad_host` are the Go agent's 0.9. */
export const proxyOutcomes = [
  ...['no_backend', '2xx', '3xx', '4xx', '5xx', 'other'],
  ...['bad_host', 'path_forbidden'],
] as const
export type ProxyOutcome = (typeof proxyOutcomes)[number]

export const codeClasses = ['2xx', '3xx', '4xx', '5xx', 'none'] as const
export type CodeClass = (typeof codeClasses)[number]

/**
 * The label of `ingress_requests_total`: the status of the answer, 499 where the relay left before there was one, and `other` for what is not
 * listed here, which an engine may answer all the same.
 */
export const ingressCodes = [
  ...['200', '201', '202', '204', '206', '301', '302', '303', '304', '307', '308'],
  ...['400', '401', '403', '404', '405', '406', '408', '409', '410', '411', '413', '415', '422', '429', '431', '499'],
  ...['500', '501', '502', '503', '504', 'other'],
] as const
export type IngressCode = (typeof ingressCodes)[number]

/** How a request for a known service ended; `answered`: the engine answered, with whatever status. */
export const requestReasons = [
  ...['answered', 'client_left', 'not_serving', 'engine_failed'],
  ...['path_forbidden', 'body_too_large', 'refused', 'gateway_failed'],
] as const
export type RequestReason = (typeof requestReasons)[number]

/** Bounds of the histograms, in seconds. */
export const durationBounds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600] as const

const count = z.int().nonnegative()

/** The number of values in each bucket; the last bucket holds those above all bounds. */
const durations = z.object({
  counts: z.array(count).length(durationBounds.length + 1),
  sum: z.number().nonnegative(),
})
export type HistogramCounts = z.infer<typeof durations>

/** The figures of one service since the gateway's start. */
const serviceCounts = z.object({
  namespace: z.string().max(300),
  name: z.string().max(300),
  requests: z
    .array(z.object({ code: z.enum(codeClasses), reason: z.enum(requestReasons), count }))
    .max(codeClasses.length * requestReasons.length),
  /** Requests in flight: before the first byte of their answer, and after it. */
  waiting: count,
  streaming: count,
  /** Seconds from a request to the first byte of the engine's answer, and to its end. */
  firstByte: durations,
  inTotal: durations,
})
export type ServiceCounts = z.infer<typeof serviceCounts>

/** More services than a Mac ever has. Beyond that, the gateway knows those that serve and the first of the others. */
export const maxRoutes = 2_000

const port = z.int().min(1).max(65_535)

const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** How long the previous API key of a service stays valid after the next one is known. */
export const earlierKeyMs = 600_000

/** The API key before the present one. */
const earlierKey = z.object({
  sha256,
  /** When it stops being valid, in milliseconds since 1970: the clocks of two processes have nothing else in common. */
  until: z.int().nonnegative(),
})
export type EarlierKey = z.infer<typeof earlierKey>

/** How a service is reached at the published address. */
export const publishedAccess = z.object({
  /** The ports of its Service, which Pods put into `Host`. */
  servicePorts: z.array(port).min(1).max(2),
  /** The SHA-256 (hex) of the API key that clients must send; `none`: no key is needed; `nobody`: every request is refused. */
  key: z.union([z.enum(['none', 'nobody']), sha256]),
  /** For a gateway that has not seen the key change. One that has keeps its own record. */
  earlierKey: earlierKey.optional(),
})
export type PublishedAccess = z.infer<typeof publishedAccess>

/** How a service is reached through the relay ingress. */
const relayAccess = z.object({
  /**
   * `beside`: and at the published address too. `alone`: not there. `unchanged`: the agent has only just started, and does not know yet, so that it
   * is as it was before.
   */
  is: z.enum(['beside', 'alone', 'unchanged']),
  /** Whether its server answers. */
  isHealthy: z.boolean(),
})
export type RelayAccess = z.infer<typeof relayAccess>

/** What the relays of a namespace must show. */
const relayToken = z.object({
  namespace: z.string().max(300),
  /** The SHA-256 (hex) of the token; `nobody`: there is none. Absent while the agent does not know it; the last known value then stays. */
  token: z.union([z.literal('nobody'), sha256]).optional(),
  /** For a gateway that has not seen the token change. One that has keeps its own record. */
  earlierKey: earlierKey.optional(),
})
export type RelayToken = z.infer<typeof relayToken>

/** Certificate and key have less than a thousand. */
const pem = z.string().max(16_384)

/**
 * The TLS listener for the relays of LLMKube 0.10, on every interface. It is open while some service is reached through it. The key comes by this
 * way and not as a file, since a gateway that root started is `nobody` and could not read it; it is in memory alone.
 */
const relayIngress = z.object({
  /** Absent = {@link ingressHost}. */
  host: z.literal('::').optional(),
  port,
  certificate: pem,
  key: pem,
  tokens: z.array(relayToken).max(maxRoutes),
})
export type RelayIngressTold = z.infer<typeof relayIngress>

/** Where the ingress listens. */
export const ingressHost = '0.0.0.0'
/** The same where an address of IPv6 is published; it takes IPv4 too. */
export const ingressHostForIpv6 = '::'

/** The API key of a daemon: unlike those of clients it has to be known as it is. It is in memory alone, and goes to the daemon alone. */
const engineKey = z.string().min(1).max(4_096)

/** One service, and the engine that serves it. */
export const gatewayRoute = z.object({
  namespace: z.string().max(300),
  name: z.string().max(300),
  /** Decides which paths are allowed. */
  runtime: z.string().max(100),
  /** What a request may call it besides its name: the engine's alias, the model's file. */
  names: z.array(z.string().max(1_024)).max(20),
  /** Where the engine is asked; absent = 127.0.0.1. */
  host: ipAddress.optional(),
  /** Absent while nothing serves it. */
  port: port.optional(),
  /** What the engine asks for, in the place of whatever a client sends. */
  engineKey: engineKey.optional(),
  /** Absent if the gateway does not listen at the published address for this service. */
  published: z
    .object({
      /** Absent while the agent does not know it; the last known value then stays. */
      address: ipAddress.optional(),
      /**
       * The engine at 127.0.0.1, or none: the gateway listens at the same port of the published address, and applies the rules of its runtime. A daemon has several models at one port of its own (`at`), and each has
       * a name there.
       */
      engine: z
        .object({
          port,
          runtime: z.string().max(100),
          at: port.optional(),
          model: z.string().max(1_024).optional(),
          engineKey: engineKey.optional(),
        })
        .optional(),
      /** Absent while the agent does not know it; the last known value then stays. */
      access: publishedAccess.optional(),
    })
    .optional(),
  /** Absent if the relays of a cluster do not reach it through the ingress. */
  relay: relayAccess.optional(),
  /** Models of a daemon whose requests in flight for this service are cut: no process ends with which they would. */
  cut: z.array(z.string().max(1_024)).max(3).optional(),
  /** Why nothing serves it, and what comes next. */
  message: z.string().max(1_000).optional(),
  /** How many seconds its server took to load last time, at most an hour, while it loads. */
  retryAfterS: z.int().min(1).max(3_600).optional(),
})
export type GatewayRoute = z.infer<typeof gatewayRoute>

/** The first frame of each connection: every service that serves, and as many of the others as there is room for. */
const allRoutes = z.object({
  type: z.literal('routes'),
  /** The port of the client proxy; 0 = there is no client proxy. */
  port: port.or(z.literal(0)),
  /** Names in `Host` that the client proxy answers to besides this machine's own. */
  hosts: z.array(z.string().max(253)).max(100).optional(),
  routes: z.array(gatewayRoute).max(maxRoutes),
  /** Absent = as it was told last. */
  ingress: relayIngress.optional(),
})
export type AllRoutes = z.infer<typeof allRoutes>

export const toGateway = z.discriminatedUnion('type', [
  allRoutes,
  /** What has changed since; `gone` names services as namespace/name. */
  z.object({
    type: z.literal('changes'),
    routes: z.array(gatewayRoute).max(maxRoutes),
    gone: z.array(z.string().max(601)).max(maxRoutes),
    ingress: relayIngress.optional(),
  }),
  /** Sent every {@link heartbeatMs} and answered with `pong`, so that each side notices when the other has ended or hangs. */
  z.object({ type: z.literal('ping') }),
  /** Whether the gateway sends `open`, at once and after each change. */
  z.object({ type: z.literal('watch'), isOn: z.boolean() }),
  /** Answered with `counts`. */
  z.object({ type: z.literal('count') }),
  /** Another one takes its place: it stops listening, answers with `retired`, finishes the requests in flight, and ends. */
  z.object({ type: z.literal('retire') }),
  /** The gateway stops listening, finishes the requests in flight, and ends. */
  z.object({ type: z.literal('end') }),
])
export type ToGateway = z.infer<typeof toGateway>

export const maxOpen = 200

const doors = ['clientProxy', 'published'] as const
export type DoorName = (typeof doors)[number]

/** Requests in flight of one client for one service. */
const openRequests = z.object({
  namespace: z.string().max(300),
  name: z.string().max(300),
  door: z.enum(doors),
  address: z.string().max(100),
  requests: z.int().positive(),
})
export type OpenRequests = z.infer<typeof openRequests>

/** The API key that a service asks for, and the one before it while that is valid. */
const serviceKey = z.object({
  namespace: z.string().max(300),
  name: z.string().max(300),
  sha256,
  earlierKey: earlierKey.optional(),
})
export type ServiceKey = z.infer<typeof serviceKey>

export const fromGateway = z.discriminatedUnion('type', [
  /** First, in every version of the protocol. */
  z.object({
    type: z.literal('hello'),
    protocol: z.int(),
    version: z.string().max(100),
    pid: z.int().positive(),
    /** The keys that it asks for, so that the next agent can tell them to the next gateway. Absent = none. */
    keys: z.array(serviceKey).max(maxRoutes).optional(),
  }),
  /** After each change, and all of them after `hello`: whether it listens at this address, and the system's code for why not. */
  z.object({
    type: z.literal('door'),
    host: z.string().max(100),
    port: z.int(),
    problem: z.string().max(100).optional(),
  }),
  z.object({ type: z.literal('pong') }),
  /** It listens nowhere any more. `told`: all that it knows, also what its present agent does not know yet; absent = nothing. */
  z.object({ type: z.literal('retired'), told: allRoutes.optional() }),
  /** At most {@link maxOpen}: the clients whose requests began first. */
  z.object({ type: z.literal('open'), requests: z.array(openRequests).max(maxOpen) }),
  /** Since its start, also sent before it ends; a missing outcome did not happen. */
  z.object({
    type: z.literal('counts'),
    requests: z.partialRecord(z.enum(proxyOutcomes), count),
    services: z.array(serviceCounts).max(maxRoutes),
    /** Requests to the relay ingress by the status of their answer, see {@link ingressCodes}. Absent = there was none. */
    ingress: z.partialRecord(z.enum(ingressCodes), count).optional(),
  }),
])
export type FromGateway = z.infer<typeof fromGateway>
export type GatewayCounts = Omit<Extract<FromGateway, { type: 'counts' }>, 'type'>

export const heartbeatMs = 2_000

/** Two thousand routes with long names fit. */
const maxLineLength = 8 * 1_024 * 1_024

/**
 * Reads frames from text as it arrives. Returns false once a line is too long or no frame of the schema: the other side cannot be understood,
 * and the connection is to be closed.
 */
export function frameReader<T>(schema: z.ZodType<T>, onFrame: (frame: T) => void): (text: string) => boolean {
  let pending = ''
  return (text) => {
    const ends = text.split('\n')
    const next = ends.pop() ?? ''
    for (const end of ends) {
      const frame = schema.safeParse(jsonIn(pending + end))
      pending = ''
      if (!frame.success) return false
      onFrame(frame.data)
    }
    pending += next
    return pending.length <= maxLineLength
  }
}

/** Undefined where the text is no JSON. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
