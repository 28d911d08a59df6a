import { readlink } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findGateway } from '../../agent-core/gateway/gateway.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { fragmentFile } from '../../agent-core/power/sudoers.ts'
import { ledgerProcesses, ledgersIn } from '../../agent-core/servers/ledger.ts'
import { StrangeSocketError } from '../../agent-core/state/socket-path.ts'
import { readIfThere } from '../../agent-core/util/files.ts'
import { signalGroup } from '../../agent-core/util/signal-group.ts'
import { shellCommand, shellWord } from '../../contract/shell.ts'
import { lookAt } from '../files.ts'
import { askSystem, type InstallationHost } from '../installation-host.ts'
import { installedServices, uninstallService, type InstalledService } from '../service/service.ts'
import { filesInMacHome, removeAll } from './file-parts.ts'
import {
  bundleId,
  insideAnApp,
  keychainService,
  removeByHand,
  sized,
  UninstallError,
  type TracePart,
} from './traces.ts'

/** Runs a command line as root, after the person gave a password; answers its exit code. */
export type AsRoot = (words: readonly string[]) => Promise<number>

const nothing = { places: [], remove: () => Promise.resolve() }

/** `security` answers it where the keychain has no such item: errSecItemNotFound. */
const noSuchItem = 44

/** The key that encrypts the token. Whether it is there is asked without reading it, so that macOS asks nobody. */
export function keychainPart(host: InstallationHost): TracePart {
  const item = ['-s', keychainService]
  return {
    kind: 'keychain',
    look: async () => {
      const { exitCode, stderr } = await askSystem(host, 'security', ['find-generic-password', ...item])
      if (exitCode === noSuchItem) return nothing
      if (exitCode !== 0) {
        throw new UninstallError(`The keychain does not answer: ${stderr.trim() || `code ${exitCode}`}`)
      }
      return {
        places: [{ path: keychainService }],
        byHand: [shellCommand(['security', 'delete-generic-password', ...item])],
        remove: async () => {
          const deleted = await askSystem(host, 'security', ['delete-generic-password', ...item])
          if (deleted.exitCode === 0 || deleted.exitCode === noSuchItem) return
          throw new UninstallError(`The keychain says: ${deleted.stderr.trim()}`)
        },
      }
    },
  }
}

/** macOS keeps these in memory too, so it is asked to delete them. */
export const macPreferencesPart = (host: InstallationHost): TracePart => ({
  kind: 'macPreferences',
  look: async () => {
    const { homeDir } = host.user
    const hasDomain = (await askSystem(host, 'defaults', ['read', bundleId])).exitCode === 0
    const domain = hasDomain ? [path.join(homeDir, 'Library/Preferences', `${bundleId}.plist`)] : []
    const perHost = await filesInMacHome('macPreferences', homeDir)
    return {
      places: await sized([...domain, ...perHost]),
      byHand: [shellCommand(['defaults', 'delete', bundleId])],
      remove: async () => {
        const deleted = hasDomain ? await askSystem(host, 'defaults', ['delete', bundleId]) : undefined
        if (deleted && deleted.exitCode !== 0) throw new UninstallError(`defaults says: ${deleted.stderr.trim()}`)
        await removeAll(perHost)
      },
    }
  },
})

/** The rule in /etc/sudoers.d, which only root may remove. */
export const sudoRulePart = ({ user, systemRoot }: InstallationHost, asRoot: AsRoot | undefined): TracePart => ({
  kind: 'sudoRule',
  look: async () => {
    const file = path.join(systemRoot, fragmentFile(user))
    return {
      places: (await lookAt(file)) === undefined ? [] : [{ path: file }],
      byHand: [shellCommand(['sudo', 'rm', '-f', file])],
      remove: async () => {
        if (asRoot === undefined) throw new UninstallError('Only root may remove it')
        const code = await asRoot(['/bin/rm', '-f', file])
        if (code !== 0) throw new UninstallError(`sudo ended with exit code ${code}`)
      },
    }
  },
})

/** Folders that are looked at also where PATH does not name them. */
const usualFolders = ['/usr/local/bin', '/opt/homebrew/bin']

/** Links into an app, which only the app makes; any other `metal-agent` is not ours. */
export const commandLinkPart = ({ env, user, systemRoot }: InstallationHost): TracePart => ({
  kind: 'commandLink',
  look: async () => {
    const inPath = (env['PATH'] ?? '').split(path.delimiter).filter((folder) => path.isAbsolute(folder))
    const own = ['.local/bin', 'bin'].map((folder) => path.join(user.homeDir, folder))
    const folders = new Set([...inPath, ...usualFolders.map((folder) => path.join(systemRoot, folder)), ...own])
    const found = [...folders].map(async (folder) => {
      const file = path.join(folder, 'metal-agent')
      if ((await lookAt(file))?.isSymbolicLink() !== true) return []
      return insideAnApp.test(path.resolve(folder, await readlink(file))) ? [file] : []
    })
    const links = (await Promise.all(found)).flat()
    return {
      places: links.map((file) => ({ path: file })),
      byHand: removeByHand(links, true),
      remove: () => removeAll(links),
    }
  },
})

/** Requests in flight were drained by the agent, where there was one. */
const defaultGraceMs = 10_000
const lookMs = 100

/** Servers outlive an agent that crashed, as its gateway does; without the state folder nothing would know of them. */
export const serversPart = (
  platform: Pick<Platform, 'process' | 'bootId' | 'isRunning'>,
  {
    stateDir,
    socketPath,
    graceMs = defaultGraceMs,
  }: { readonly stateDir: string; readonly socketPath: string; readonly graceMs?: number },
): TracePart => ({
  kind: 'servers',
  look: async () => {
    const commandLine = async (pid: number) => (await platform.process(pid))?.commandLine
    const gateway = await findGateway({ stateDir, socketPath, commandLine }).catch(noStranger)
    // A daemon comes last: its models are others' servers.
    const { servers: ofServices, daemons } = ledgersIn(stateDir)
    const [servicesText = '', daemonsText = ''] = await Promise.all([readIfThere(ofServices), readIfThere(daemons)])
    const noted = [
      ...ledgerProcesses(servicesText).map((server) => ({ ...server, mayBeKilled: true })),
      // Memory that some of them had wired would stay so until the machine is started again.
      ...ledgerProcesses(daemonsText).map((daemon) => ({ ...daemon, mayBeKilled: false })),
    ]
    const bootId = await platform.bootId()
    const found = noted.map(async (server) => {
      const facts = server.bootId === bootId ? await platform.process(server.pid) : undefined
      // Another process that has got the number since has another start time.
      return facts?.startTime === server.startTime ? [server] : []
    })
    const servers = (await Promise.all(found)).flat()
    return {
      places: [
        ...servers.map(({ key, pid }) => ({ path: `${key} (process ${pid})` })),
        ...(gateway ? [{ path: `the client proxy (process ${gateway.pid})` }] : []),
      ],
      byHand: [
        ...servers.map(({ pid, mayBeKilled }) => `kill -${mayBeKilled ? 'KILL' : 'TERM'} -- -${pid}`),
        ...(gateway ? [`kill -KILL -- -${gateway.pid}`] : []),
      ],
      remove: async () => {
        await gateway?.end()
        for (const { pid } of servers) signalGroup(pid, 'SIGTERM')
        const until = performance.now() + graceMs
        for (const server of servers) {
          while ((await platform.isRunning(server)) && performance.now() < until) await delay(lookMs)
          if (server.mayBeKilled && (await platform.isRunning(server))) signalGroup(server.pid, 'SIGKILL')
        }
      },
    }
  },
})

/** Who listens in its place may be another user, whom an uninstall leaves alone. */
function noStranger(error: unknown): undefined {
  if (!(error instanceof StrangeSocketError)) throw error
}

/** The services that `metal-agent install` made for this user. */
export const servicePart = (host: InstallationHost, tell: (sentence: string) => void): TracePart => ({
  kind: 'service',
  look: async () => {
    const services = await installedServices(host)
    const isRemoved = (service: InstalledService) => service.plan !== undefined && !isOfAnother(service, host)
    const ours = services.filter(isRemoved)
    return {
      places: await sized(ours.map(({ manager }) => manager.file)),
      stays: services.filter((one) => !isRemoved(one)).map(whyItStays),
      byHand: ours.map(({ manager: { kind, file } }) =>
        kind === 'launchDaemon' ? 'sudo metal-agent uninstall' : `rm ${shellWord(file)}`,
      ),
      remove: async () => {
        for (const service of ours) await uninstallService(service, { host, tell })
      },
    }
  },
})

function whyItStays({ manager: { file }, plan, problem = '', isUnread }: InstalledService): string {
  if (isUnread === true) {
    return `${file} may be read only by root, so it is not known whose service it is: sudo metal-agent uninstall removes it.`
  }
  return plan?.userName === undefined
    ? `${file} ${problem}: Metalbar did not write it.`
    : `${file} is the service of ${plan.userName}: sudo metal-agent uninstall removes it.`
}

/** A LaunchDaemon is visible to every user, but belongs to one. */
const isOfAnother = ({ plan }: InstalledService, { user }: InstallationHost): boolean =>
  plan?.userName !== undefined && plan.userName !== user.name
