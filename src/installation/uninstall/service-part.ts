import { shellWord } from '../../contract/shell.ts'
import type { InstallationHost } from '../installation-host.ts'
import { installedServices, type InstalledService } from '../service/installed-service.ts'
import type { ServiceWork } from '../service/hand-over.ts'
import { uninstallService } from '../service/uninstall-service.ts'
import type { KnownPlaces } from './all-parts.ts'
import { bytesOf } from './own-files.ts'
import type { TracePart } from './trace-part.ts'

/** What `metal-agent install` made, by what removes it. */
export function servicePart(host: InstallationHost, work: ServiceWork): TracePart {
  const isOurs = ({ content, manager }: InstalledService) =>
    content?.label === undefined || content.label === manager.name
  return {
    kind: 'service',
    look: async () => {
      const services = await installedServices(host)
      if (services.length === 0) return undefined
      const ours = services.filter(isOurs)
      const places = ours.map(async ({ manager: { file } }) => ({ path: file, bytes: await bytesOf(file) }))
      const others = services.filter((one) => !isOurs(one))
      return {
        places: await Promise.all(places),
        stays: others.map(({ manager, problem = '' }) => `${manager.file} ${problem}: it is none of ours.`),
        byHand: ours.map(({ manager: { kind, file } }) =>
          kind === 'launchDaemon' ? 'sudo metal-agent uninstall' : `rm ${shellWord(file)}`,
        ),
      }
    },
    remove: async () => {
      for (const service of (await installedServices(host)).filter(isOurs)) {
        await uninstallService(service, { host, work, keepServing: false })
      }
    },
  }
}

/** Where the agents of services write, by the flags that they are started with. */
export async function placesOfServices(host: InstallationHost): Promise<KnownPlaces[]> {
  const services = await installedServices(host)
  return services.flatMap(({ plan }) =>
    plan === undefined
      ? []
      : [
          {
            modelStore: plan.flags.get('model-store'),
            logFile: plan.flags.get('log-file'),
            kubeconfig: plan.flags.get('kubeconfig'),
            namespace: plan.flags.get('namespace'),
          },
        ],
  )
}
