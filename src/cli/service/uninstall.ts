import type { InstallationHost } from '../../installation/installation-host.ts'
import { installedServices } from '../../installation/service/installed-service.ts'
import { uninstallService } from '../../installation/service/uninstall-service.ts'
import { exitCodes, type CliIo } from '../io.ts'
import { saying, workOf } from './install.ts'
import { hostOf, serviceHost } from './service-host.ts'

/** `metal-agent uninstall`: the service alone. What it kept for the next agent, such as models and settings, stays. */
export function uninstall(io: CliIo, keepServing: boolean, given?: InstallationHost): Promise<number> {
  return saying(io, async () => {
    const host = given ?? (await serviceHost(io))
    const services = await installedServices(host)
    if (services.length === 0) {
      io.stdout.write('No service is installed, so there is nothing to remove.\n')
      return exitCodes.done
    }
    // With both there, root removes what only root may, and the user what is theirs.
    const isMine = services.filter(({ manager }) => (manager.kind === 'launchDaemon') === host.isRoot)
    for (const service of services.length > 1 && isMine.length > 0 ? isMine : services) {
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
