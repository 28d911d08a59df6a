import { done, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

export async function resumeNode(rooms: Rooms): Outcome {
  if (rooms.absences.pausedSince === undefined) return done('This machine is not paused.')
  await rooms.absences.pause(undefined)
  rooms.history.add({
    kind: 'settingsChanged',
    message: 'This machine was resumed by a person.',
    undo: { name: 'pauseNode' },
  })
  rooms.session()?.reconciler.enqueueAll()
  rooms.agent.changed()
  return done('This machine serves again: what answers is published.')
}
