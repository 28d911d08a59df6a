import type { Logger } from '../../agent-core/observability/logger.ts'
import type { Prepared } from '../shown-agent.ts'
import { lacksShell, loginEnvironment } from './login-environment.ts'

export interface TakenEnvironment extends Prepared {
  readonly shellPath: string
}

/** Gives this process, once, what a terminal would have given it; the agent and all that it starts have it from here. */
export async function takeLoginEnvironment(env: NodeJS.ProcessEnv, log: Logger): Promise<TakenEnvironment> {
  if (!lacksShell(env)) return { shellPath: env['PATH'] ?? '' }
  const { set, shellPath, problem } = await loginEnvironment({ env, shell: env['SHELL'] ?? '' })
  Object.assign(env, set)
  if (problem === undefined) log.info('environment of the login shell', { names: Object.keys(set).sort() })
  return { shellPath, ...(problem !== undefined && { problem }) }
}
