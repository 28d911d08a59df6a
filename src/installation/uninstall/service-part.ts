import { shellWord } from '../../contract/shell.ts'
import type { InstallationHost } from '../installation-host.ts'
import { installedServices, isOurs, type InstalledService } from '../service/installed-service.ts'
import type { ServiceWork } from '../service/hand-over.ts'
import { uninstallService } from '../service/uninstall-service.ts'
import type { KnownPlaces } from './all-parts.ts'
import { bytesOf } from './own-files.ts'
import type { TracePart } from './trace-part.ts'

/** What `metal-agent install` made, by what removes it. */
export function servicePart(host: InstallationHost, work: ServiceWork): TracePart {
  const isRemoved = (service: InstalledService) => isOurs(service) && !isOfAnother(service, host)
  return {
    kind: 'service',
    look: async () => {
      const services = await installedServices(host)
      if (services.length === 0) return undefined
      const ours = services.filter(isRemoved)
      const places = ours.map(async ({ manager: { file } }) => ({ path: file, bytes: await bytesOf(file) }))
      const others = services.filter((one) => !isRemoved(one))
      return {
        places: await Promise.all(places),
        stays: others.map(whyItStays),
        byHand: ours.map(({ manager: { kind, file } }) =>
          kind === 'launchDaemon' ? 'sudo metal-agent uninstall' : `rm ${shellWord(file)}`,
        ),
      }
    },
    remove: async () => {
      for (const service of (await installedServices(host)).filter(isRemoved)) {
        await uninstallService(service, { host, work, keepServing: false })
      }
    },
  }
}

function whyItStays({ manager: { file }, plan, problem = '', isUnread }: InstalledService): string {
  if (isUnread === true) {
    return `${file} may be read by root alone, so that whose service it is is not known: sudo metal-agent uninstall removes it.`
  }
  return plan?.userName === undefined
    ? `${file} ${problem}: it is none of ours.`
    : `${file} is the service of ${plan.userName}: sudo metal-agent uninstall removes it.`
}

/** Where the agents of services write, by the flags that they are started with. */
export async function placesOfServices(host: InstallationHost): Promise<KnownPlaces[]> {
  const services = await installedServices(host)
  return services.flatMap((service) => {
    const { plan } = service
    return plan === undefined || isOfAnother(service, host)
      ? []
      : [
          {
            modelStore: plan.flags.get('model-store'),
            logFile: plan.flags.get('log-file'),
            kubeconfig: plan.flags.get('kubeconfig'),
            namespace: plan.flags.get('namespace'),
          },
        ]
  })
}

/** A LaunchDaemon is there for every user, and its places are those of one. */
const isOfAnother = ({ plan }: InstalledService, { user }: InstallationHost): boolean =>
  plan?.userName !== undefined && plan.userName !== user.name
