import { setTimeout as delay } from 'node:timers/promises'
import type { ServersAtEnd } from '../../serve/host-agent.ts'
import { hostPlatform } from '../../agent-core/platform/host.ts'
import { buildInfo } from '../../agent-core/agent/build-info.ts'
import { socketPathFor } from '../../agent-core/state/socket-path.ts'
import { LinkError, type AgentLink } from '../../contract/client.ts'
import type { CommandResult } from '../../contract/commands.ts'
import type { HostOptions, HostResult } from '../../serve/host-agent.ts'
import { readStartSettings, type AppPlaces } from './start-settings.ts'
import type { AgentView } from './agent-view.ts'
import { lazyLink } from './lazy-link.ts'
import { readPreferences, type ShellPreferences } from '../preferences.ts'
import { setAside } from '../../agent-core/state/state-file.ts'

export interface ShownAgent {
  readonly link: AgentLink
  /** The machine is about to sleep, or woke. */
  sleeps(isAsleep: boolean): Promise<void>
  /** The machine runs on mains or on a battery now. */
  supplyChanged(): Promise<void>
  /** Requests in flight hold up no end from now on. */
  cutDrains(): Promise<void>
  /** Sets files that cannot be used aside, and starts again. Throws what the disk answers. */
  reset(): Promise<void>
  /** Ends the agent that another program runs, and starts one here that takes its servers over; what came of it where it did not. */
  takeOver(): Promise<CommandResult | undefined>
  /** Ends an agent that runs here in good order; false where something was left, which the log then names. */
  stop(servers: ServersAtEnd): Promise<boolean>
}

export interface ShownAgentOptions
  extends
    AppPlaces,
    Pick<
      HostOptions,
      'temporaryDir' | 'windowFolder' | 'log' | 'onShutdown' | 'onLogLevel' | 'keptHubToken' | 'holdAwake' | 'gateway'
    > {
  /** Settles when the login shell's environment has been taken over. */
  readonly isPrepared: Promise<Prepared>
  /** Undefined where they cannot be used. */
  readonly onPreferences: (preferences: ShellPreferences | undefined) => void
  readonly onHosting: (hosting: Pick<AgentView, 'isHere' | 'isBroken'>) => void
}

/** `problem`: of the environment, one sentence. */
export interface Prepared {
  readonly problem?: string
}

/** `broken`: files that must be repaired or reset first. */
type Hosting =
  HostResult | { readonly ok: false; readonly reason: 'broken'; readonly file: string; readonly message: string }

/** The agent of the state folder: started here, or, where one runs on it already, that one over its socket. */
export function showAgent(options: ShownAgentOptions): ShownAgent {
  const { log, onHosting } = options
  const begin = (hostOnce = host) => {
    const begun = hostOnce(options)
    begun.then(
      (result) => {
        if (!result.ok) log.warn('no agent here', { reason: result.message })
        const reason = result.ok ? undefined : result.reason
        onHosting({ isHere: reason !== 'taken', isBroken: reason === 'broken' })
      },
      (error: unknown) => {
        log.error('the agent could not be started', { error })
        onHosting({ isHere: true, isBroken: false })
      },
    )
    return begun
  }
  let hosting = begin()
  const hosted = async () => {
    const result = await hosting.catch(() => undefined)
    return result?.ok === true ? result.hosted : undefined
  }
  const link = lazyLink(async () => open(await hosting, options))
  return {
    link,
    sleeps: async (isAsleep) => {
      const agent = await hosted()
      await (isAsleep ? agent?.suspend() : agent?.resume())
    },
    supplyChanged: async () => (await hosted())?.supplyChanged(),
    cutDrains: async () => (await hosted())?.cutDrains(),
    reset: async () => {
      // Each may be broken, and one is found after the other.
      for (let found = await hosting; !found.ok && found.reason === 'broken'; found = await hosting) {
        log.warn('set aside', { file: found.file, as: await setAside(found.file) })
        hosting = begin()
      }
    },
    takeOver: async () => {
      const found = await hosting
      if (found.ok || found.reason !== 'taken') return undefined
      const result = await link.command({ name: 'shutdown', keepServing: true }).catch((error: unknown) => {
        // One that has ended meanwhile need not be asked.
        if (error instanceof LinkError && error.code === 'gone') return undefined
        throw error
      })
      if (result && result.outcome !== 'accepted') return result
      hosting = begin(hostWhenFree)
      const after = await hosting
      return after.ok ? undefined : { outcome: 'failed', message: after.message }
    },
    stop: async (servers) => (await (await hosted())?.stop({ servers })) ?? true,
  }
}

/** An agent that keeps its servers ends within seconds. */
const takeOverLimitMs = 30_000
const takeOverRetryMs = 250

async function hostWhenFree(options: ShownAgentOptions): Promise<Hosting> {
  const since = performance.now()
  for (;;) {
    const result = await host(options)
    if (result.ok || result.reason !== 'taken' || performance.now() - since > takeOverLimitMs) return result
    await delay(takeOverRetryMs)
  }
}

/** The Kubernetes client is loaded when the icon is there: it takes a quarter of a second. */
async function host(options: ShownAgentOptions): Promise<Hosting> {
  const { stateDir, onPreferences, isPrepared } = options
  const { problem } = await isPrepared
  const read = await readPreferences(stateDir)
  onPreferences(read.ok ? read.preferences : undefined)
  if (!read.ok) return { ...read, reason: 'broken' }
  const start = await readStartSettings(options)
  if (!start.ok) return { ...start, reason: 'broken' }
  const { hostAgent } = await import('../../serve/host-agent.ts')
  return hostAgent({
    ...options,
    settings: start.settings,
    platform: hostPlatform(),
    version: buildInfo.version,
    notices: problem === undefined ? [] : [problem],
  })
}

async function open(result: Hosting, { stateDir, temporaryDir }: ShownAgentOptions): Promise<AgentLink> {
  if (result.ok) {
    const { inProcessLink } = await import('../../serve/client/lasting-link.ts')
    return inProcessLink(result.hosted.door)
  }
  if (result.reason !== 'taken') throw new LinkError('gone', result.message)
  const { connectToAgent } = await import('../../serve/client/agent-client.ts')
  return connectToAgent({ socketPath: socketPathFor(stateDir, temporaryDir), stateDir })
}
