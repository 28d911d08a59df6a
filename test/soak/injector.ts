import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { ApiError } from '../support/control-plane/admin-client.ts'
import type { ApiServer } from '../support/control-plane/control-plane.ts'
import type { FaultProxy } from '../support/fault-proxy.ts'
import type { Blockage } from './blockage.ts'
import type { Disk } from './disk.ts'
import { services, touched, type AgentName, type Fault, type FaultKind, type ServiceName } from './faults.ts'
import type { LocalClient } from './local-client.ts'
import type { ServerProcess } from './processes.ts'
import type { SoakAgent } from './soak-agent.ts'
import type { SoakDaemon } from './soak-daemon.ts'
import type { SoakObjects } from './soak-objects.ts'
import { undisturbed } from './surroundings.ts'
import type { Touches } from './touches.ts'

/** Undoing goes on until it is done; an agent that takes a word no more at all is a finding. */
const undoLimitMs = 90_000
const retryMs = 200
/** How long a command to the agent that is a fault itself is tried. */
const tellLimitMs = 4_000
/** Little enough that the least important leave memory. */
const criticalMiB = 300
/** Between two looks of an agent at a source. */
const refreshMs = 10_000

export interface InjectorOptions {
  readonly api: ApiServer
  readonly proxy: FaultProxy
  readonly objects: SoakObjects
  readonly agents: Readonly<Record<AgentName, SoakAgent>>
  readonly daemons: Readonly<Record<AgentName, SoakDaemon>>
  readonly servers: () => readonly ServerProcess[]
  /** Services without an EndpointSlice now, which goes to the quicker agent. */
  readonly unclaimed: () => readonly ServiceName[]
  /** Of the first agent's state folder; undefined where this machine allows none. */
  readonly disk: Disk | undefined
  readonly obstacles: { readonly api: Blockage; readonly slices: Blockage; readonly files: Blockage }
  /** A namespace with nothing to be served. */
  readonly elsewhere: string
  readonly local: LocalClient
  readonly clientPort: number
  readonly touches: Touches
  readonly changes: Touches
  /** See `Oracle.workedMs`. */
  readonly workedMs: () => number
  /** Gains those whose Endpoints the agent may not know as they are: it does not watch them. */
  readonly strayEndpoints: Set<ServiceName>
}

type What<K extends FaultKind> = Extract<Fault['what'], { kind: K }>

/** Does what a fault says, and takes it back when its time is over. */
export class Injector {
  readonly #options: InjectorOptions
  readonly #memory: number[] = []
  readonly #busy = new Set<string>()
  #guests = 0
  #guestAway: Promise<void> = Promise.resolve()

  constructor(options: InjectorOptions) {
    this.#options = options
  }

  /** Resolves when it is over and taken back. */
  async inject(fault: Fault): Promise<void> {
    const { touches, changes, strayEndpoints, workedMs } = this.#options
    const [ends, changed] = [touched(fault), this.#changed(fault)]
    touches.begin(ends)
    changes.begin(changed)
    for (const name of strayed(fault)) strayEndpoints.add(name)
    try {
      await this.#inject(fault.what)
    } finally {
      touches.end(ends, workedMs())
      changes.end(changed, workedMs())
    }
  }

  #changed({ what }: Fault): readonly ServiceName[] {
    return what.kind === 'killServer' || what.kind === 'stopServer' ? [] : touched({ what })
  }

  async #inject(what: Fault['what']): Promise<void> {
    const { agents, objects, proxy, daemons } = this.#options
    const { first } = agents
    switch (what.kind) {
      case 'killServer': {
        this.#signal(what.service, 'SIGKILL')
        return
      }
      case 'stopServer':
        this.#signal(what.service, 'SIGSTOP')
        await delay(what.forMs)
        {
          this.#signal(what.service, 'SIGCONT')
          return
        }
      case 'killAgent':
        return this.#as(what.agent, () =>
          this.#alone(what.agent, async () => {
            await agents[what.agent].end('SIGKILL')
            await delay(what.awayMs)
            agents[what.agent].start()
          }),
        )
      case 'killAgentInStart':
        return this.#alone('first', async () => {
          await first.end('SIGKILL')
          first.start()
          await delay(what.afterMs)
          await first.end('SIGKILL')
          first.start()
        })
      case 'terminateAgent':
        return this.#alone('first', () =>
          this.#options.local.disturb(async () => {
            await first.end('SIGTERM')
            await delay(what.awayMs)
            first.start()
          }),
        )
      case 'stallApi':
      case 'killApi':
        return this.#alone('api', () => this.#outage(what))
      case 'refuse':
        return this.#refuse(what)
      case 'cutWatches': {
        proxy.cutWatches()
        return
      }
      case 'stepClock': {
        const agent = agents[what.agent]
        return agent.surround({ clockOffsetMs: agent.clockOffsetMs + what.byMs })
      }
      case 'fillDisk':
      case 'readOnlyDisk':
        return this.#alone('disk', () => this.#spoilDisk(what))
      case 'deletePublished':
        return this.#deletePublished(what)
      case 'editPublished':
        return this.#arrange(() => objects.editPublished(what.what, what.service))
      case 'deleteModel':
        await this.#arrange(() => objects.deleteModel(what.service))
        await delay(what.awayMs)
        return this.#arrange(() => objects.applyModel(what.service))
      case 'recreate':
        await this.#arrange(() => objects.deleteService(what.service))
        await delay(what.awayMs)
        return this.#arrange(() => objects.applyService(what.service))
      case 'edit':
        return this.#arrange(() => objects.resize(what.service, what.contextSize))
      case 'takeBackEdit':
        return this.#takeBackEdit(what)
      case 'scaleToZero':
        await this.#arrange(() => objects.edit(what.service, { replicas: 0 }))
        await delay(what.forMs)
        return this.#arrange(() => objects.edit(what.service, { replicas: 1 }))
      case 'secondAgent':
        return this.#as('second', () => delay(what.forMs))
      case 'pause':
        return this.#as(what.agent, () => this.#pause(what))
      case 'evict':
        return this.#as(what.agent, () => this.#alone(`hold ${what.service}`, () => this.#evict(what)))
      case 'restart':
        await this.#tell(first, 'restart', objects.keyOf(what.service))
        return
      case 'noAddress':
        return this.#as(what.agent, async () => {
          await agents[what.agent].surround({ hasAddress: false })
          await delay(what.forMs)
          await agents[what.agent].surround({ hasAddress: true })
        })
      case 'memory':
        return this.#take(what)
      case 'fdLimit':
        return this.#as(what.agent, () => this.#alone(`files of ${what.agent}`, () => this.#limitFiles(what)))
      case 'newContent':
        return this.#newContent(what)
      case 'twin':
        return this.#alone('twin', async () => {
          await this.#arrange(() => objects.applyTwin())
          await delay(what.forMs)
          await this.#arrange(() => objects.deleteTwin())
        })
      case 'moveNamespace':
        // What is left behind is no longer this agent's to answer for, whatever the cluster lets it withdraw.
        return this.#alone('namespace', () => this.#options.local.disturb(() => this.#move(what)))
      case 'prune':
        return this.#as(what.agent, async () => {
          await this.#tell(agents[what.agent], 'models', 'prune', '--yes')
        })
      case 'holdEvicted':
        return this.#alone(`hold ${what.service}`, () => this.#holdEvicted(what))
      case 'updateAgent':
        return this.#alone('first', async () => {
          await first.end('SIGKILL')
          first.changeVersion()
          first.start()
        })
      case 'killDaemon':
        return this.#alone('daemon', () => daemons.first.away(() => delay(what.awayMs)))
      case 'hangDaemon':
        return this.#alone('daemon', () => daemons.first.hang(() => delay(what.forMs)))
      case 'dropModels': {
        daemons.first.dropModels()
        return
      }
      case 'killGateway':
      case 'stopGateway':
      case 'takeClientPort':
        return this.#alone('gateway', () => this.#options.local.disturb(() => this.#harmGateway(what)))
    }
  }

  async #harmGateway(what: What<'killGateway' | 'stopGateway' | 'takeClientPort'>): Promise<void> {
    const { agents, clientPort } = this.#options
    const pid = agents.first.gatewayPid
    if (pid === undefined) return
    send(pid, what.kind === 'stopGateway' ? 'SIGSTOP' : 'SIGKILL')
    if (what.kind === 'killGateway') return
    const squatter = what.kind === 'takeClientPort' ? createServer().on('error', () => undefined) : undefined
    squatter?.listen(clientPort, '127.0.0.1')
    await delay(what.forMs)
    squatter?.close()
    if (what.kind === 'stopGateway') send(pid, 'SIGCONT')
  }

  #signal(service: ServiceName, signal: NodeJS.Signals): void {
    for (const { pid } of this.#options.servers().filter((one) => one.service === service)) send(pid, signal)
  }

  /** The same fault is not injected twice at a time into the same thing. */
  async #alone(what: string, run: () => Promise<void>): Promise<void> {
    if (this.#busy.has(what)) return
    this.#busy.add(what)
    try {
      await run()
    } finally {
      this.#busy.delete(what)
    }
  }

  /** The second agent is there while something is done to it. */
  async #as(agent: AgentName, run: () => Promise<void>): Promise<void> {
    if (agent === 'first') return run()
    const { second } = this.#options.agents
    await this.#guestAway
    this.#guests += 1
    this.#mayMove(this.#options.unclaimed())
    second.start()
    try {
      await run()
    } finally {
      this.#guests -= 1
      if (this.#guests === 0) this.#guestAway = second.leave()
      await this.#guestAway
    }
  }

  async #outage(what: What<'stallApi' | 'killApi'>): Promise<void> {
    const { api, obstacles } = this.#options
    obstacles.api.begin(performance.now())
    if (what.kind === 'stallApi') {
      api.pause()
      await delay(what.forMs)
      api.resume()
    } else {
      await api.kill()
      await delay(what.awayMs)
      await api.restart()
    }
    obstacles.api.end(performance.now())
  }

  async #refuse({ resource, answer, name, forMs }: What<'refuse'>): Promise<void> {
    const { proxy, obstacles } = this.#options
    const undo = proxy.refuse({ resource, answer, name })
    if (resource === 'endpointslices') obstacles.slices.begin(performance.now())
    await delay(forMs)
    undo()
    if (resource === 'endpointslices') obstacles.slices.end(performance.now())
  }

  async #spoilDisk({ kind, forMs }: What<'fillDisk' | 'readOnlyDisk'>): Promise<void> {
    const { disk, agents } = this.#options
    if (!disk) return
    agents.first.diskFaults.open += 1
    agents.first.diskFaults.begun += 1
    if (kind === 'fillDisk') disk.fill()
    else await disk.protect()
    await delay(forMs)
    if (kind === 'fillDisk') await disk.empty()
    else disk.release()
    agents.first.diskFaults.open -= 1
  }

  async #deletePublished({ object, service }: What<'deletePublished'>): Promise<void> {
    const { objects } = this.#options
    const unclaimed = object === 'EndpointSlice' ? [service] : []
    this.#mayMove(unclaimed)
    await this.#arrange(() => objects.deletePublished(object, service))
    this.#mayMove(unclaimed)
  }

  /** The quicker agent gets the claim on a slice that is gone: with a guest there, the first agent may lose the service to it. */
  #mayMove(unclaimed: readonly ServiceName[]): void {
    if (this.#guests === 0) return
    const { touches, workedMs } = this.#options
    touches.begin(unclaimed)
    touches.end(unclaimed, workedMs())
  }

  async #takeBackEdit({ service, contextSize, afterMs }: What<'takeBackEdit'>): Promise<void> {
    const { objects } = this.#options
    const before = await this.#arrange(() => objects.sizeOf(service))
    await this.#arrange(() => objects.resize(service, contextSize))
    await delay(afterMs)
    if (before !== undefined) await this.#arrange(() => objects.resize(service, before))
  }

  async #pause({ agent: name, forMs }: What<'pause'>): Promise<void> {
    const agent = this.#options.agents[name]
    await this.#tell(agent, 'pause')
    await delay(forMs)
    await this.#until(() => agent.tell('resume'), `the ${name} agent to resume`)
  }

  async #evict({ agent: name, service, forMs }: What<'evict'>): Promise<void> {
    const agent = this.#options.agents[name]
    const key = this.#options.objects.keyOf(service)
    await this.#tell(agent, 'evict', key)
    await delay(forMs)
    await this.#bringBack(name, service)
  }

  async #bringBack(name: AgentName, service: ServiceName): Promise<void> {
    const agent = this.#options.agents[name]
    const isBack = async () => {
      const view = (await agent.snapshot())?.services.find((one) => one.name === service)
      // An agent that has only just started does not say yet what is held.
      const isFree = view !== undefined && view.reason !== 'Pending' && view.hold?.by !== 'person'
      return isFree || agent.tell('bring-back', this.#options.objects.keyOf(service))
    }
    await this.#until(isBack, `the ${name} agent to bring ${service} back`)
  }

  /** What a person says of a service that memory pressure evicted counts, and outlives the pressure. */
  async #holdEvicted({ service, how, forMs }: What<'holdEvicted'>): Promise<void> {
    const { objects, agents } = this.#options
    const { first } = agents
    const holdOf = async () => (await first.snapshot())?.services.find((one) => one.name === service)?.hold
    const verb = how === 'stop' ? ['--here'] : []
    const end = await this.#beginShortage(criticalMiB)
    const deadline = performance.now() + tellLimitMs
    while ((await holdOf())?.by !== 'pressure' && performance.now() < deadline) await delay(retryMs)
    const uid = await this.#arrange(() => objects.uidOf(service))
    const isDone = await first.tell(how, ...verb, objects.keyOf(service))
    await end()
    await delay(forMs)
    const hold = await holdOf()
    const isSame = uid !== undefined && uid === (await this.#arrange(() => objects.uidOf(service)))
    await this.#bringBack('first', service)
    if (isDone && isSame && first.isAtWork && !this.#busy.has('namespace') && hold?.by !== 'person') {
      throw new Error(`"${how}" of ${service} was answered as done, and ${forMs} ms later it is not held by a person.`)
    }
  }

  async #limitFiles({ agent: name, left, forMs }: What<'fdLimit'>): Promise<void> {
    const { agents, obstacles } = this.#options
    obstacles.files.begin(performance.now())
    agents[name].limitFiles(left)
    await delay(forMs)
    agents[name].limitFiles(undefined)
    obstacles.files.end(performance.now())
  }

  /** The clock is put right when the content has had the time to get here. */
  async #newContent({ service, aheadMs, forMs }: What<'newContent'>): Promise<void> {
    const { objects, agents } = this.#options
    const { first } = agents
    await first.surround({ clockOffsetMs: first.clockOffsetMs + aheadMs })
    await objects.changeContent(service)
    await delay(forMs)
    await first.surround({ clockOffsetMs: first.clockOffsetMs - aheadMs })
    // The source is asked every ten seconds, and what was changed shows for a while after that.
    await delay(refreshMs)
  }

  async #move({ forMs }: What<'moveNamespace'>): Promise<void> {
    const { agents, objects, elsewhere } = this.#options
    await this.#tell(agents.first, 'settings', 'set', 'namespace', elsewhere)
    await delay(forMs)
    const isBack = () => agents.first.tell('settings', 'set', 'namespace', objects.namespace)
    await this.#until(isBack, 'the first agent to go back to its namespace')
    // It leaves the other one first, which takes as long as the cluster takes to answer.
    const isThere = async () => {
      const { cluster, services } = (await agents.first.snapshot()) ?? {}
      const isLeaving = services?.some(({ message }) => message.includes('this machine moves'))
      return isLeaving === false && cluster?.state === 'live' && cluster.namespace !== elsewhere
    }
    await this.#until(isThere, 'the first agent to be back in its namespace')
  }

  /** The least of what all of these leave. */
  async #take({ availableMiB, forMs }: What<'memory'>): Promise<void> {
    const end = await this.#beginShortage(availableMiB)
    await delay(forMs)
    await end()
  }

  async #beginShortage(availableMiB: number): Promise<() => Promise<void>> {
    const { first } = this.#options.agents
    const state = () => first.surround({ availableMiB: Math.min(undisturbed.availableMiB, ...this.#memory) })
    this.#memory.push(availableMiB)
    await state()
    return () => {
      this.#memory.splice(this.#memory.indexOf(availableMiB), 1)
      return state()
    }
  }

  /** Whether it said yes in time; one that is starting, or refuses, may not. */
  async #tell(agent: SoakAgent, ...verb: [string, ...string[]]): Promise<boolean> {
    const deadline = performance.now() + tellLimitMs
    while (performance.now() < deadline) {
      if (await agent.tell(...verb)) return true
      await delay(retryMs)
    }
    return false
  }

  /** The API server may be away or halted just now. */
  async #arrange<T>(ask: () => Promise<T>): Promise<T | undefined> {
    const answer: { value?: T } = {}
    await this.#until(async () => {
      try {
        answer.value = await ask()
        return true
      } catch (error) {
        // Gone, there already, or changed meanwhile by another fault.
        return error instanceof ApiError && [404, 409].includes(error.status)
      }
    }, 'the API server to take what the soak wants')
    return answer.value
  }

  async #until(isSo: () => Promise<boolean>, what: string): Promise<void> {
    const deadline = performance.now() + undoLimitMs
    while (!(await isSo())) {
      if (performance.now() > deadline) throw new Error(`Waited ${undoLimitMs / 1_000} s for ${what}.`)
      await delay(retryMs)
    }
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    // It ended by itself a moment ago.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

function strayed({ what }: Fault): readonly ServiceName[] {
  if (what.kind === 'refuse')
    return what.resource !== 'endpoints' ? [] : what.name === undefined ? services : [what.name]
  const isHit =
    (what.kind === 'deletePublished' && what.object === 'Endpoints') ||
    (what.kind === 'editPublished' && what.what === 'Endpoints')
  return isHit ? [what.service] : []
}
