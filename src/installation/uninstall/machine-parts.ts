import { readlink } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { fragmentFile } from '../../agent-core/power/sudoers.ts'
import { ledgerProcesses } from '../../agent-core/servers/ledger.ts'
import { readIfThere } from '../../agent-core/util/files.ts'
import { signalGroup } from '../../agent-core/util/signal-group.ts'
import { shellCommand, shellWord } from '../../contract/shell.ts'
import { askSystem, type InstallationHost } from '../installation-host.ts'
import type { ServiceWork } from '../service/hand-over.ts'
import { installedServices, isOurs, type InstalledService } from '../service/installed-service.ts'
import { uninstallService } from '../service/change-service.ts'
import type { KnownPlaces } from './file-parts.ts'
import {
  bundleId,
  bytesOf,
  insideAnApp,
  keychainService,
  lookAt,
  macHomeRows,
  namesIn,
  removeAll,
  removeByHand,
  UninstallError,
  type TracePart,
} from './traces.ts'

/** Runs a command line as root, after the person gave a password; answers its exit code. */
export type AsRoot = (words: readonly string[]) => Promise<number>

/** `security` answers it where the keychain has no such item: errSecItemNotFound. */
const noSuchItem = 44

/** The key that encrypts the token. Whether it is there is asked without reading it, so that macOS asks nobody. */
export function keychainPart(host: InstallationHost): TracePart {
  const item = ['-s', keychainService]
  return {
    kind: 'keychain',
    look: async () => {
      const { exitCode, stderr } = await askSystem(host, 'security', ['find-generic-password', ...item])
      if (exitCode === noSuchItem) return undefined
      if (exitCode !== 0)
        throw new UninstallError(`The keychain does not answer: ${stderr.trim() || `code ${exitCode}`}.`)
      const byHand = [shellCommand(['security', 'delete-generic-password', ...item])]
      return { places: [{ path: keychainService }], byHand }
    },
    remove: async () => {
      const { exitCode, stderr } = await askSystem(host, 'security', ['delete-generic-password', ...item])
      if (exitCode !== 0 && exitCode !== noSuchItem) throw new UninstallError(`The keychain says: ${stderr.trim()}`)
    },
  }
}

/** macOS keeps these in memory too, so it is asked to delete them. */
export function macPreferencesPart(host: InstallationHost): TracePart {
  const domain = path.join(host.user.homeDir, 'Library/Preferences', `${bundleId}.plist`)
  const has = async () => (await askSystem(host, 'defaults', ['read', bundleId])).exitCode === 0
  const perHost = async () => {
    const found = macHomeRows
      .filter(({ kind }) => kind === 'macPreferences')
      .map(async ({ folder, name: isOurs }) => {
        const names = await namesIn(path.join(host.user.homeDir, folder))
        return names.filter((name) => isOurs.test(name)).map((name) => path.join(host.user.homeDir, folder, name))
      })
    return (await Promise.all(found)).flat()
  }
  return {
    kind: 'macPreferences',
    look: async () => {
      const files = [...((await has()) ? [domain] : []), ...(await perHost())]
      const places = files.map(async (file) => ({ path: file, bytes: await bytesOf(file) }))
      const byHand = [shellCommand(['defaults', 'delete', bundleId])]
      return files.length === 0 ? undefined : { places: await Promise.all(places), byHand }
    },
    remove: async () => {
      if (await has()) {
        const { exitCode, stderr } = await askSystem(host, 'defaults', ['delete', bundleId])
        if (exitCode !== 0) throw new UninstallError(`defaults says: ${stderr.trim()}`)
      }
      await removeAll(await perHost())
    },
  }
}

/** Only root may write there; rules of other users are named. */
export function sudoRulePart({ user, systemRoot }: InstallationHost, asRoot: AsRoot | undefined): TracePart {
  const inRoot = (file: string) => path.join(systemRoot, file)
  const file = inRoot(fragmentFile(user))
  const look = async () => {
    const folder = path.dirname(file)
    const others = (await namesIn(folder)).filter(
      (name) => name.startsWith('metalbar-powermetrics-') && name !== path.basename(file),
    )
    const isThere = (await lookAt(file)) !== undefined
    if (!isThere && others.length === 0) return undefined
    return {
      places: isThere ? [{ path: file }] : [],
      stays: others.map(
        (name) =>
          `${path.join(folder, name)} is the rule of another user: ${shellCommand(['sudo', 'rm', path.join(folder, name)])}`,
      ),
      byHand: [shellCommand(['sudo', 'rm', '-f', file])],
    }
  }
  return {
    kind: 'sudoRule',
    look,
    remove: async () => {
      if (asRoot === undefined) throw new UninstallError('Only root may remove it')
      const code = await asRoot(['/bin/rm', '-f', file])
      if (code !== 0) throw new UninstallError(`sudo ended with exit code ${code}`)
    },
  }
}

/** Looked at also where PATH does not name them. */
const usualFolders = ['/usr/local/bin', '/opt/homebrew/bin']

/** Links into an app, which only the app makes; any other `metal-agent` is not ours. */
export function commandLinkPart({ env, user, systemRoot }: InstallationHost): TracePart {
  const inPath = (env['PATH'] ?? '').split(path.delimiter).filter((folder) => path.isAbsolute(folder))
  const own = ['.local/bin', 'bin'].map((folder) => path.join(user.homeDir, folder))
  const folders = [...new Set([...inPath, ...usualFolders.map((folder) => path.join(systemRoot, folder)), ...own])]
  const links = async () => {
    const found = folders.map(async (folder) => {
      const file = path.join(folder, 'metal-agent')
      if ((await lookAt(file))?.isSymbolicLink() !== true) return []
      return insideAnApp.test(path.resolve(folder, await readlink(file))) ? [file] : []
    })
    return (await Promise.all(found)).flat()
  }
  return {
    kind: 'commandLink',
    look: async () => {
      const files = await links()
      if (files.length === 0) return undefined
      return { places: files.map((file) => ({ path: file })), byHand: removeByHand(files, true) }
    },
    remove: async () => removeAll(await links()),
  }
}

/** Requests in flight were drained by the agent, where there was one. */
const graceMs = 10_000
const lookMs = 100

/** Servers outlive an agent that crashed; without the state folder nothing would know of them. */
export function serversPart(platform: Pick<Platform, 'process' | 'bootId' | 'isRunning'>, stateDir: string): TracePart {
  const running = async () => {
    const text = await readIfThere(path.join(stateDir, 'ledger.json'))
    const known = text === undefined ? [] : ledgerProcesses(text)
    const bootId = await platform.bootId()
    const found = known.map(async (server) => {
      const facts = server.bootId === bootId ? await platform.process(server.pid) : undefined
      // Another process that has got the number since has another start time.
      return facts?.startTime === server.startTime ? [server] : []
    })
    return (await Promise.all(found)).flat()
  }
  return {
    kind: 'servers',
    look: async () => {
      const servers = await running()
      if (servers.length === 0) return undefined
      const places = servers.map(({ key, pid }) => ({ path: `${key} (process ${pid})` }))
      return { places, byHand: servers.map(({ pid }) => `kill -KILL -- -${pid}`) }
    },
    remove: async () => {
      const servers = await running()
      for (const { pid } of servers) signalGroup(pid, 'SIGTERM')
      const until = performance.now() + graceMs
      for (const server of servers) {
        while ((await platform.isRunning(server)) && performance.now() < until) await delay(lookMs)
        if (await platform.isRunning(server)) signalGroup(server.pid, 'SIGKILL')
      }
    },
  }
}

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
    return `${file} may be read by root alone, so it is not known whose service it is: sudo metal-agent uninstall removes it.`
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

/** A LaunchDaemon is visible to every user, but belongs to one. */
const isOfAnother = ({ plan }: InstalledService, { user }: InstallationHost): boolean =>
  plan?.userName !== undefined && plan.userName !== user.name
