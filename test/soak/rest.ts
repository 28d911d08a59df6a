import { readdir, readFile } from 'node:fs/promises'
import { basename, join, sep } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { hasCode } from '../../src/agent-core/util/files.ts'
import type { AgentWorld } from '../support/agent-world.ts'
import { daemonServices, isMlx, isOfDaemon, services, type AgentName, type ServiceName } from './faults.ts'
import type { Oracle } from './oracle.ts'
import type { SoakAgent } from './soak-agent.ts'
import { weightsOf, type SoakDaemon } from './soak-daemon.ts'
import { mlxConfig, type SoakObjects } from './soak-objects.ts'

/** A dead watch, a claim that is given up, back-off after failures: everything has ended by then. */
const limitMs = 180_000
const lookEveryMs = 250
/** What was asked for a moment ago, such as a restart, has begun to show by then. */
const lastsMs = 3_000
/** A service that crashed often waits for minutes; a person would not. */
const helpEveryMs = 5_000

export interface RestOptions {
  readonly world: AgentWorld
  readonly objects: SoakObjects
  readonly agents: Readonly<Record<AgentName, SoakAgent>>
  readonly daemons: Readonly<Record<AgentName, SoakDaemon>>
  readonly oracle: Oracle
  /** Whose Endpoints may be missing until something about them changes; a wrong port is wrong all the same. */
  readonly strayEndpoints: Set<ServiceName>
}

export interface LastingOptions {
  /** How long it must be right without a break. */
  readonly lastsMs: number
  /** When it must have begun to be right. */
  readonly limitMs: number
  readonly everyMs: number
  readonly now?: () => number
}

/**
 * Looks until nothing has been wrong for some time. One look that finds everything right is no rest: the server that a person has just
 * asked to restart still serves. @returns what is wrong when the time is over.
 */
export async function untilLasting(
  look: () => Promise<string[]>,
  { lastsMs: wantedMs, limitMs: allowedMs, everyMs, now = () => performance.now() }: LastingOptions,
): Promise<string[]> {
  const deadline = now() + allowedMs
  let rightSince: number | undefined
  for (;;) {
    const complaints = await look()
    rightSince = complaints.length > 0 ? undefined : (rightSince ?? now())
    if (rightSince !== undefined && now() - rightSince >= wantedMs) return []
    if (rightSince === undefined && now() > deadline) return complaints
    await delay(everyMs)
  }
}

/** Waits until everything is as it should be when nothing goes wrong any more. */
export class Rest {
  readonly #options: RestOptions

  constructor(options: RestOptions) {
    this.#options = options
  }

  /** @returns what is not so when the time is over: everything wanted serves, and nothing else is there. */
  async reached(): Promise<string[]> {
    let helpAt = performance.now() + helpEveryMs
    const complaints = await this.#until(async () => {
      const isDue = performance.now() > helpAt
      if (isDue) helpAt = performance.now() + helpEveryMs
      const helped = isDue ? await this.#help() : []
      const ofServices = await Promise.all(services.map((name) => this.#complaints(name)))
      return [...helped, ...ofServices.flat(), ...(await this.#daemonComplaints())]
    })
    return complaints.length === 0 ? [] : [...complaints, ...(await this.#views())]
  }

  /** @returns what is left although nothing is wanted. */
  emptied(): Promise<string[]> {
    const { world, oracle, daemons } = this.#options
    return this.#until(async () => {
      const kinds = await Promise.all(services.map((name) => world.publishedKinds(name)))
      const left = services.flatMap((name, index) =>
        (kinds[index] ?? []).map((kind) => `The ${kind} of ${name} is left.`),
      )
      return [
        ...left,
        ...oracle.servers.map(({ pid, service }) => `Server ${pid} of ${service} is left.`),
        ...Object.values(daemons).flatMap(({ loaded }) => loaded.map(leftInMemory)),
      ]
    })
  }

  #until(look: () => Promise<string[]>): Promise<string[]> {
    return untilLasting(look, { lastsMs, limitMs, everyMs: lookEveryMs })
  }

  async #complaints(name: ServiceName): Promise<string[]> {
    const { world, objects, oracle, strayEndpoints } = this.#options
    const size = await objects.sizeOf(name)
    const ready = oracle.readyOf(name)
    const servers = this.#serversOf(name, { size, port: ready?.port })
    const [server] = servers
    const { phase } = await world.status(name)
    const ports = await objects.endpointPorts(name)
    const areEndpointsRight = ports.length === 1 && ports[0] === server?.port
    if (areEndpointsRight) strayEndpoints.delete(name)
    const mayMiss = ports.length === 0 && strayEndpoints.has(name)
    const expected = { servers: 1, agent: 'first', size, ready: server?.port, holder: 'first', phase: 'Ready' }
    const is = {
      ...{ servers: servers.length, agent: server?.agent, size: server?.size },
      ...{ ready: ready?.port, holder: ready?.holder, phase },
    }
    const { text } = objects.contentOf(name)
    const isContentRight =
      server !== undefined &&
      (isOfDaemon(name) ? server.model === weightsOf(text) : (await contentOf(name, server.model)) === text)
    const copies = (await filesIn(this.#store)).filter((file) => isCopyOf(name, file))
    const mostCopies = objects.copiesOf(name)
    const isService = (await world.service(name)) !== undefined
    const shown = (one: unknown) => JSON.stringify(one)
    return [
      ...(shown(is) === shown(expected) ? [] : [`At rest ${name} is ${shown(is)}, not ${shown(expected)}.`]),
      ...(isContentRight ? [] : [`At rest the server of ${name} has another content than its source, or none.`]),
      ...(copies.length <= mostCopies
        ? []
        : [`At rest there are ${copies.length} copies of ${name}, and no more than ${mostCopies} may be.`]),
      ...(isService ? [] : [`At rest there is no Service ${name}.`]),
      ...(areEndpointsRight || mayMiss ? [] : [`At rest the Endpoints of ${name} name ${shown(ports)}.`]),
    ]
  }

  /** What serves it; of a daemon's service the model in memory that has the size which is wanted, at whatever port its slice says. */
  #serversOf(name: ServiceName, wanted: { readonly size: number | undefined; readonly port: number | undefined }) {
    const { daemons, oracle } = this.#options
    if (!isOfDaemon(name)) return oracle.servers.filter(({ service }) => service === name)
    const { size, port } = wanted
    const loaded = daemons.first.loaded.filter(({ contextTokens }) => contextTokens === size)
    return loaded.map(({ weights: model }) => ({ agent: 'first' as const, size, port, model }))
  }

  /** What its services need is in the memory of Ollama once, and nothing else of the agents. */
  async #daemonComplaints(): Promise<string[]> {
    const { objects, daemons } = this.#options
    const wanted = new Set(await Promise.all(daemonServices.map((name) => objects.sizeOf(name))))
    const { loaded } = daemons.first
    const leftThere = daemons.second.loaded.map(leftInMemory)
    if (loaded.length === wanted.size) return leftThere
    const names = loaded.map(({ name, contextTokens }) => `${name} of ${contextTokens} tokens`).join(', ')
    return [
      ...leftThere,
      `At rest Ollama has ${names || 'none'} in memory, and models of ${[...wanted].join(' and ')} tokens are wanted.`,
    ]
  }

  get #store(): string {
    return join(this.#options.agents.first.folder, 'models')
  }

  /** @returns what shows only later that it was asked for. */
  async #help(): Promise<string[]> {
    const { agents, objects } = this.#options
    const views = (await agents.first.snapshot())?.services ?? []
    const looping = services.filter((name) => views.find((view) => view.name === name)?.state === 'crash-looping')
    for (const name of looping) await agents.first.tell('restart', objects.keyOf(name))
    return looping.map((name) => `A restart of ${name} has just been asked for.`)
  }

  /** What the agent itself says of everything. */
  async #views(): Promise<string[]> {
    const views = (await this.#options.agents.first.snapshot())?.services ?? []
    return views.map(
      ({ name, state, reason, message }) => `The agent says of ${name}: ${state} (${reason}): ${message}`,
    )
  }
}

const leftInMemory = ({ name }: { readonly name: string }): string => `Model ${name} is left in the memory of Ollama.`

/** What tells it from another of the service; undefined where it is gone. */
const contentOf = (name: ServiceName, model: string): Promise<string | undefined> =>
  ifThere(readFile(isMlx(name) ? join(model, mlxConfig) : model, 'utf8'), undefined)

/** `file`: below the store, which has a folder for each Model. */
const isCopyOf = (name: ServiceName, file: string): boolean =>
  isMlx(name) ? file.split(sep)[0] === name && basename(file) === mlxConfig : basename(file) === `${name}.gguf`

/** Before its first download there is no store. */
const filesIn = (folder: string): Promise<string[]> => ifThere(readdir(folder, { recursive: true }), [])

async function ifThere<T, R>(read: Promise<T>, otherwise: R): Promise<T | R> {
  try {
    return await read
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return otherwise
    throw error
  }
}
