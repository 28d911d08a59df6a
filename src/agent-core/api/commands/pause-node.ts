import { done, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** Endpoints are withdrawn, models stay in memory; kept over restarts of the agent. */
export async function pauseNode(rooms: Rooms): Outcome {
  if (rooms.absences.pausedSince !== undefined) return done('This machine is paused already.')
  await rooms.absences.pause(new Date().toISOString())
  rooms.history.add({
    kind: 'settingsChanged',
    message: 'This machine was paused by a person.',
    undo: { name: 'resumeNode' },
  })
  rooms.session()?.reconciler.enqueueAll()
  rooms.agent.changed()
  return done('This machine is paused: its addresses are withdrawn, its models stay in memory, and nothing is started.')
}
