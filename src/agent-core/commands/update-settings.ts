import type { Command } from '../../contract/commands.ts'
import { done, notAvailable, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** All of them or none. */
export async function updateSettings(rooms: Rooms, command: Extract<Command, { name: 'updateSettings' }>): Outcome {
  const { settings, agent, history } = rooms
  const obstacle = settings.obstacle(command.settings)
  if (obstacle?.by === 'flag') {
    return refused(
      `${obstacle.name} was given as a flag, which wins; nothing is changed. Start the agent without that flag to set it here.`,
    )
  }
  if (obstacle) return notAvailable(`${obstacle.name} is not in effect yet; nothing is changed.`)
  if (Object.keys(command.settings).length === 0) return done('Nothing was to be set.')
  const message = await settings.update(command.settings)
  agent.setLogLevel?.(settings.current.logLevel)
  history.add({ kind: 'settingsChanged', message: `Set by a person: ${message}` })
  return done(message)
}
