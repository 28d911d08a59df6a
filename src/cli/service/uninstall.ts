import path from 'node:path'
import { ledgerProcesses } from '../../agent-core/servers/ledger.ts'
import { readIfThere } from '../../agent-core/util/files.ts'
import type { InstallationHost } from '../../installation/installation-host.ts'
import { uninstallService } from '../../installation/service/change-service.ts'
import { stateDirOf } from '../../installation/service/hand-over.ts'
import { installedServices, type InstalledService } from '../../installation/service/installed-service.ts'
import { exitCodes, type CliIo } from '../io.ts'
import { servingText } from '../uninstall.ts'
import { saying, workOf } from './install.ts'
import { agentsOf } from './service-agents.ts'
import { hostOf, serviceHost } from './service-host.ts'

export interface UninstallRequest {
  readonly keepServing: boolean
  /** Models that serve end without a question. */
  readonly isConfirmed: boolean
}

/** `metal-agent uninstall`: the service alone. What it kept for the next agent, such as models and settings, stays. */
export function uninstall(
  io: CliIo,
  { keepServing, isConfirmed }: UninstallRequest,
  given?: InstallationHost,
): Promise<number> {
  return saying(io, async () => {
    const host = given ?? (await serviceHost(io))
    const services = await installedServices(host)
    if (services.length === 0) {
      io.stdout.write('No service is installed, so there is nothing to remove.\n')
      return exitCodes.done
    }
    // With both there, root removes what only root may, and the user what is theirs.
    const isMine = services.filter(({ manager }) => (manager.kind === 'launchDaemon') === host.isRoot)
    const chosen = services.length > 1 && isMine.length > 0 ? isMine : services
    if (!keepServing && !isConfirmed) {
      const serving = (await Promise.all(chosen.map((service) => servedBy(service, io)))).flat()
      if (serving.length > 0 && !(await mayEnd(serving, io))) return exitCodes.refused
    }
    for (const service of chosen) {
      const { removed, keptAt } = await uninstallService(service, {
        host: await hostOf(service.plan, host, io),
        work: workOf(io),
        keepServing,
      })
      io.stdout.write(`The service is gone, and with it:\n${removed.map((file) => `  ${file}\n`).join('')}`)
      if (keptAt !== undefined) io.stdout.write(`What was changed by hand is kept as ${keptAt}.\n`)
      if (keepServing) io.stdout.write('Its model servers run on until the next agent on its state folder ends.\n')
    }
    return exitCodes.done
  })
}

/** The models that end with a service: those of its own agent, and not of one that it waits for. */
async function servedBy({ manager, plan }: InstalledService, io: CliIo): Promise<readonly string[]> {
  if (!plan) return []
  const { pid } = await manager.state()
  if (pid === undefined) return []
  const stateDir = stateDirOf(plan)
  const look = await agentsOf(io).look(stateDir)
  if (look) return look.pid === undefined || look.pid === pid ? look.serving : []
  // It does not say what it serves, and the ledger does.
  const ledger = await readIfThere(path.join(stateDir, 'ledger.json'))
  return [...new Set(ledgerProcesses(ledger ?? '').map(({ key }) => key))]
}

async function mayEnd(serving: readonly string[], { ask, stdout, stderr }: CliIo): Promise<boolean> {
  stdout.write(`${servingText(serving)}\n`)
  if (ask === undefined) {
    stderr.write(
      'metal-agent: Nothing was removed: repeat it with --yes, which ends these models in good order, or with --keep-serving.\n',
    )
    return false
  }
  const isYes = /^y(es)?$/i.test((await ask('End them, and remove the service? [y/N] '))?.trim() ?? '')
  if (!isYes) stderr.write('metal-agent: Nothing was removed.\n')
  return isYes
}
