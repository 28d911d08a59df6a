import ipaddr from 'ipaddr.js'
import type { Runtime } from '../runtimes/runtime.ts'
import { type ServerRuntime, serverRuntimes } from '../servers/probe.ts'
import { homedir } from 'node:os'
import { doubtInMove, moveOfNews, sessionMove, type SessionMove } from './cluster-commands.ts'
import { accepted, done, type Outcome, refused, refusedSetting, type Rooms } from './command.ts'
import { KubeconfigError } from '../kube/kubeconfig.ts'
import type { MemorySettings } from '../memory/memory.ts'
import type { DownloadSettings } from '../models/remote.ts'
import type { PowerSettings } from '../power/power.ts'
import { explicitHostAddress } from '../publishing/host-address.ts'
import type { SpecPolicy } from '../reconcile/runtime-choice.ts'
import type { GeneralRules, PortPolicy } from '../servers/launch.ts'
import type { AgentSettings } from '../settings/settings.ts'
import { expandHome } from '../util/files.ts'
import { isIpv6 } from '../../contract/addresses.ts'
import type { Command } from '../../contract/commands.ts'
import {
  type ImmediateSetting,
  type SettingName,
  settingNames,
  type SettingsPatch,
  spellingOf,
} from '../../contract/settings.ts'

/** All of them or none. Another namespace or kubeconfig takes the agent there, as another context does. */
export async function updateSettings(rooms: Rooms, command: Extract<Command, { name: 'updateSettings' }>): Outcome {
  const { settings, link, history, changed } = rooms
  const flagged = settings.statedByFlag(command.settings)
  if (flagged !== undefined) {
    return refusedSetting(
      flagged,
      `${spellingOf(flagged)} was given as a flag, which wins; nothing is changed. Start the agent without that flag to set it here.`,
    )
  }
  if (Object.keys(command.settings).length === 0) return done('There is nothing to set.')
  let move: SessionMove | undefined
  try {
    move = await sessionMove(rooms, command.settings)
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error
    const setting = command.settings.kubeconfig === undefined ? 'namespace' : 'kubeconfig'
    return refusedSetting(setting, `Nothing is changed: ${error.message}`)
  }
  const { accept = [] } = command
  const doubt = move && (await doubtInMove(rooms, { ...move, accept }))
  if (doubt) {
    return refused(`Nothing is changed. ${doubt.message}`, {
      command: { ...command, accept: [...accept, doubt.doubt] },
      label: doubt.label,
    })
  }
  const before = settings.personsOf(command.settings)
  const message = await settings.update(command.settings)
  for (const tell of receiversOf(command.settings)) tell(rooms)
  changed()
  history.add({
    ...{ kind: 'settingsChanged', message: `Set by a person: ${message}` },
    settings: settings.shownPatch(command.settings),
    ...(before && { undo: { name: 'updateSettings', settings: before } }),
  })
  move ??= moveOfNews(rooms)
  if (!move) return done(message)
  if (command.settings.kubeconfig !== undefined && !settings.hasContextFlag) {
    await settings.chooseContext(move.context.name)
  }
  link.moveTo(move.context, move.where)
  return accepted(`${message} ${move.message}`)
}

type Receiver = (rooms: Rooms) => void

const downloads: Receiver = ({ models }) => models.settingsChanged()
const admission: Receiver = ({ memory, link }) => {
  void memory.settingsChanged()
  link.session?.reconciler.memoryRulesChanged()
}
/** The next look at memory applies the eviction settings, so one is made now. */
const evictions: Receiver = ({ memory }) => void memory.look()
const supply: Receiver = (rooms) => rooms.supply.settingsChanged()
const power: Receiver = (rooms) => rooms.power.settingsChanged()
const ways: Receiver = ({ link: { session } }) => session?.reconciler.enqueueAll()
/** No receiver: the command itself moves to the new cluster or namespace. */
const move: Receiver = () => undefined
const daemons: Receiver = (rooms) => rooms.daemons.settingsChanged()
const log: Receiver = ({ onLogLevel, settings }) => onLogLevel?.(settings.current.logLevel)

/** The room that acts on a change of each setting that counts at once. A setting that counts later is read when it is needed. */
const receivers: Readonly<Record<ImmediateSetting, Receiver>> = {
  kubeconfig: move,
  namespace: move,
  ollamaStart: daemons,
  omlxStart: daemons,
  downloadBytesPerSecond: downloads,
  memoryFraction: admission,
  memoryBudgetBytes: admission,
  memoryCheckMode: admission,
  evictionEnabled: evictions,
  publish: ways,
  sleepPolicy: supply,
  awakeOnBattery: supply,
  applePowerEnabled: power,
  powerSource: power,
  macmonBin: power,
  logLevel: log,
}

/** The receivers of the changed settings, each only once. */
function receiversOf(patch: SettingsPatch): ReadonlySet<Receiver> {
  const byName: Readonly<Partial<Record<SettingName, Receiver>>> = receivers
  return new Set(settingNames.flatMap((name) => (patch[name] === undefined ? [] : (byName[name] ?? []))))
}

/** What is published in EndpointSlices. */
export async function setHostAddress(rooms: Rooms, { address }: Extract<Command, { name: 'setHostAddress' }>): Outcome {
  const { settings, address: published, history, platform } = rooms
  const now = settings.hostAddress
  if (now.by === 'flag') {
    return refused(
      `The host address stays ${now.address}, as --host-ip says; start the agent without that flag to choose here.`,
    )
  }
  // As systems write it, so that it is the same as that of an interface.
  const wanted = address === 'automatic' ? undefined : ipaddr.parse(address).toString()
  const judged =
    wanted === undefined ? undefined : explicitHostAddress({ by: 'person', address: wanted }, platform.interfaces())
  if (judged?.kind === 'none') return refused(judged.message)
  if ((now.by === 'person' ? now.address : undefined) === wanted)
    return done('The host address is already set to that.')
  await settings.chooseHostAddress(wanted)
  const what = wanted === undefined ? 'chosen automatically' : `set to ${wanted}`
  history.add({
    ...{ kind: 'settingsChanged', message: `A person changed the host address: it is ${what}.` },
    undo: { name: 'setHostAddress', address: now.by === 'person' ? now.address : 'automatic' },
  })
  await published.check()
  const restarts =
    wanted !== undefined && isIpv6(wanted) ? 'servers that listen only on IPv4 restart' : 'no server restarts'
  const followed = `The host address is ${what}; the published addresses change at once, and ${restarts}.`
  return done(judged?.warning === undefined ? followed : `${followed} ${judged.warning}`)
}

/** What each room takes from the settings of the agent. */

/** The runtimes that this machine offers, the preferred one first. */
export const offered = ({ runtimes: chosen }: AgentSettings): readonly ServerRuntime[] => chosen ?? serverRuntimes

export function launchRules(settings: AgentSettings, runtime: Runtime): GeneralRules {
  const { drainLimitMs } = settings
  const general = { drainLimitMs, portFlag: '--port-range' }
  if (runtime.kind === 'daemon') return general
  const startupStallMs = settings.startupStallMs ?? runtime.usualStallMs
  return { ...general, startupStallMs, advice: runtime.advice }
}

export const memorySettings = (settings: AgentSettings): MemorySettings => ({
  fraction: settings.memoryFraction,
  budgetBytes: settings.memoryBudgetBytes,
  enforcement: settings.memoryCheckMode,
})

export const downloadSettings = (settings: AgentSettings): DownloadSettings => ({
  bytesPerSecond: settings.downloadBytesPerSecond,
  bytesPerNamespace: settings.namespaceModelBytes,
  hubEndpoint: settings.hubEndpoint,
  hubTokenFile: settings.hubTokenFile,
  caFile: settings.caFile,
  hubLoginNamespaces: settings.hubLoginNamespaces,
})

export const powerSettings = (settings: AgentSettings): PowerSettings => ({
  isEnabled: settings.applePowerEnabled,
  source: settings.powerSource,
  macmon: settings.macmonBin,
})

/** Where the Go agent has its one mlx-server. */
const firstMlxServerPort = 8_080

export function portPolicy({ portRange }: AgentSettings, runtime: ServerRuntime): PortPolicy {
  if (portRange)
    return portRange.from === portRange.to ? { kind: 'fixed', port: portRange.from } : { kind: 'range', ...portRange }
  return runtime === 'mlx-server' ? { kind: 'ephemeral', first: firstMlxServerPort } : { kind: 'ephemeral' }
}

export const specPolicy = (settings: AgentSettings): SpecPolicy => ({
  allowsUnsafe: settings.allowUnsafeExtraArgs,
  allowedEnv: settings.allowedEnv,
  modelRoots: [settings.modelStore, ...settings.allowedModelRoots].map((root) => expandHome(root, homedir())),
})
