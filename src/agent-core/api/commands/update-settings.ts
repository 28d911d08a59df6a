import type { Command } from '../../../contract/commands.ts'
import {
  type ImmediateSetting,
  type SettingName,
  settingNames,
  type SettingsPatch,
  spellingOf,
} from '../../../contract/settings.ts'
import { KubeconfigError } from '../../kube/pinned-context.ts'
import { doubtInMove } from './context-doubts.ts'
import { accepted, done, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'
import { sessionMove, type SessionMove } from './session-move.ts'

/** All of them or none. Another namespace or kubeconfig takes the agent there, as another context does. */
export async function updateSettings(rooms: Rooms, command: Extract<Command, { name: 'updateSettings' }>): Outcome {
  const { settings, agent, history } = rooms
  const flagged = settings.statedByFlag(command.settings)
  if (flagged !== undefined) {
    return refused(
      `${spellingOf(flagged)} was given as a flag, which wins; nothing is changed. Start the agent without that flag to set it here.`,
    )
  }
  if (Object.keys(command.settings).length === 0) return done('Nothing was to be set.')
  let move: SessionMove | undefined
  try {
    move = await sessionMove(rooms, command.settings)
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error
    return refused(`Nothing is changed: ${error.message}`)
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
  agent.changed()
  history.add({
    ...{ kind: 'settingsChanged', message: `Set by a person: ${message}` },
    settings: settings.shownPatch(command.settings),
    ...(before && { undo: { name: 'updateSettings', settings: before } }),
  })
  if (!move) return done(message)
  if (command.settings.kubeconfig !== undefined && !settings.hasContextFlag) {
    await settings.chooseContext(move.context.name)
  }
  agent.moveTo(move.context, move.where)
  return accepted(`${message} ${move.message}`)
}

type Receiver = (rooms: Rooms) => void

const downloads: Receiver = ({ models }) => models.settingsChanged()
const refreshes: Receiver = ({ session }) => session()?.reconciler.refreshIntervalChanged()
const admission: Receiver = ({ memory, session }) => {
  void memory.settingsChanged()
  session()?.reconciler.memoryRulesChanged()
}
/** Which looks at memory decide. */
const evictions: Receiver = ({ memory }) => void memory.look()
const supply: Receiver = (rooms) => rooms.supply.settingsChanged()
const power: Receiver = (rooms) => rooms.power.settingsChanged()
const energy: Receiver = (rooms) => {
  rooms.energy.settingsChanged()
  rooms.power.settingsChanged()
}
/** It is read for each answer. */
const answers: Receiver = () => undefined
/** The command itself moves. */
const move: Receiver = () => undefined
const log: Receiver = ({ agent, settings }) => agent.setLogLevel?.(settings.current.logLevel)

/** The room that acts on a change of each setting that counts at once. A setting that counts later is read when it is needed. */
const receivers: Readonly<Record<ImmediateSetting, Receiver>> = {
  kubeconfig: move,
  namespace: move,
  downloadBytesPerSecond: downloads,
  downloadsAtOnce: downloads,
  partialKeepMs: answers,
  refreshEveryMs: refreshes,
  memoryFraction: admission,
  memoryBudgetBytes: admission,
  memoryCheckMode: admission,
  evictionAtAdmission: admission,
  memoryMarginBytes: evictions,
  evictionEnabled: evictions,
  evictionShare: evictions,
  comeBackMs: evictions,
  sleepPolicy: supply,
  pauseOnBattery: supply,
  applePowerEnabled: power,
  applePowerIntervalMs: power,
  powerSource: power,
  macmon: power,
  energyLedger: energy,
  energyPricePerKwh: answers,
  energyCurrency: answers,
  logLevel: log,
}

/** Each once. */
function receiversOf(patch: SettingsPatch): ReadonlySet<Receiver> {
  const told: Readonly<Partial<Record<SettingName, Receiver>>> = receivers
  return new Set(settingNames.flatMap((name) => (patch[name] === undefined ? [] : (told[name] ?? []))))
}
