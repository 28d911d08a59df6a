import type { Command } from '../../contract/commands.ts'
import { spellingOf } from '../../contract/setting-text.ts'
import { KubeconfigError } from '../kube/pinned-context.ts'
import { doubtInMove } from './context-doubts.ts'
import { accepted, done, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'
import { sessionMove, type SessionMove } from './session-move.ts'

/** All of them or none. Another namespace or kubeconfig takes the agent there, as another context does. */
export async function updateSettings(rooms: Rooms, command: Extract<Command, { name: 'updateSettings' }>): Outcome {
  const { settings, agent, history, models, memory, power, supply, energy, session } = rooms
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
  models.settingsChanged()
  void memory.settingsChanged()
  power.settingsChanged()
  supply.settingsChanged()
  energy.settingsChanged()
  session()?.reconciler.memoryRulesChanged()
  agent.changed()
  agent.setLogLevel?.(settings.current.logLevel)
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
