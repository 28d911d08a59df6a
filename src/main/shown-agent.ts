import type { ServersAtEnd } from '../serve/host-agent.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import { buildInfo } from '../agent-core/build-info.ts'
import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { LinkError, type AgentLink } from '../contract/client.ts'
import type { HostOptions, HostResult } from '../serve/host-agent.ts'
import { lazyLink } from './lazy-link.ts'
import type { Preferences } from './preferences.ts'

export interface ShownAgent {
  readonly link: AgentLink
  /** Whether it runs in this app, and so ends with it; settles when that is known. */
  readonly isHere: Promise<boolean>
  /** Ends an agent that runs here in good order; false where something was left, which the log then names. */
  stop(servers: ServersAtEnd): Promise<boolean>
}

export interface ShownAgentOptions extends Pick<
  HostOptions,
  'env' | 'temporaryDir' | 'windowFolder' | 'log' | 'onShutdown' | 'onLogLevel'
> {
  readonly preferences: Preferences
  readonly stateDir: string
}

/** The agent of the state folder: started here, or, where one runs on it already, that one over its socket. */
export function showAgent(options: ShownAgentOptions): ShownAgent {
  const hosting = host(options)
  hosting.then(
    (result) => result.ok || options.log.warn('no agent here', { reason: result.message }),
    (error: unknown) => options.log.error('the agent could not be started', { error }),
  )
  return {
    link: lazyLink(async () => open(await hosting, options)),
    isHere: hosting.then(
      (result) => result.ok,
      () => false,
    ),
    stop: async (servers) => {
      const result = await hosting.catch(() => undefined)
      return result?.ok !== true || result.hosted.stop({ servers })
    },
  }
}

/** Loaded when the icon is there: the Kubernetes client takes a quarter of a second. */
async function host({ preferences, ...options }: ShownAgentOptions): Promise<HostResult> {
  if (!preferences.ok) return { ...preferences, reason: 'unusable' }
  const { hostAgent } = await import('../serve/host-agent.ts')
  return hostAgent({ ...options, settings: preferences.settings, platform: hostPlatform(), version: buildInfo.version })
}

async function open(result: HostResult, { stateDir, temporaryDir }: ShownAgentOptions): Promise<AgentLink> {
  if (result.ok) {
    const { inProcessLink } = await import('../serve/client/in-process-link.ts')
    return inProcessLink(result.hosted.door)
  }
  if (result.reason === 'unusable') throw new LinkError('gone', result.message)
  const { connectToAgent } = await import('../serve/client/agent-client.ts')
  return connectToAgent({ socketPath: socketPathFor(stateDir, temporaryDir), stateDir })
}
