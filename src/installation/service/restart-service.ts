import { InstallationError } from '../installation-host.ts'
import { leaveServers, startedAs, type ServiceWork, type Started } from './hand-over.ts'
import type { InstalledService } from './installed-service.ts'

export interface RestartOutcome {
  readonly pidBefore: number | undefined
  /** Model servers that ran before. */
  readonly servers: readonly number[]
  readonly started: Started
}

/** Another process serves on with the same model servers. Throws InstallationError. */
export async function restartService(service: InstalledService, work: ServiceWork): Promise<RestartOutcome> {
  const { manager, plan, problem } = service
  await manager.check()
  if (!plan) {
    throw new InstallationError(`${manager.file} ${problem ?? ''}: install it anew with metal-agent install --force.`)
  }
  const before = await manager.state()
  const look = await leaveServers(manager, plan, work)
  await (before.isLoaded ? manager.start() : manager.load())
  const servers = look?.serverPids ?? []
  return { pidBefore: before.pid, servers, started: await startedAs(manager, plan, work, servers) }
}
