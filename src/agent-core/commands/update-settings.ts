import type { Command } from '../../contract/commands.ts'
import { done, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** All of them or none. */
export async function updateSettings(rooms: Rooms, command: Extract<Command, { name: 'updateSettings' }>): Outcome {
  const { settings, agent, history, models, memory, power, energy, session } = rooms
  const flagged = settings.statedByFlag(command.settings)
  if (flagged !== undefined) {
    return refused(
      `${flagged} was given as a flag, which wins; nothing is changed. Start the agent without that flag to set it here.`,
    )
  }
  if (Object.keys(command.settings).length === 0) return done('Nothing was to be set.')
  const message = await settings.update(command.settings)
  models.settingsChanged()
  void memory.settingsChanged()
  power.settingsChanged()
  energy.settingsChanged()
  session()?.reconciler.memoryRulesChanged()
  agent.changed()
  agent.setLogLevel?.(settings.current.logLevel)
  history.add({ kind: 'settingsChanged', message: `Set by a person: ${message}` })
  return done(message)
}
