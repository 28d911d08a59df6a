import { accepted, done, type Outcome, refused, type Rooms } from './command.ts'
import type { Command } from '../../contract/commands.ts'

interface PauseTexts {
  readonly already: string
  readonly history: string
  readonly done: string
  readonly undo: Command
}

const pauseTexts: Readonly<Record<'pauseNode' | 'resumeNode', PauseTexts>> = {
  pauseNode: {
    already: 'This machine is already paused.',
    history: 'A person paused this machine.',
    done: 'This machine is paused: its addresses are withdrawn, its models stay in memory, and nothing is started.',
    undo: { name: 'resumeNode' },
  },
  resumeNode: {
    already: 'This machine is not paused.',
    history: 'A person resumed this machine.',
    done: 'This machine serves again: servers that answer are published.',
    undo: { name: 'pauseNode' },
  },
}

/** A paused machine withdraws its endpoints and keeps its models in memory, over restarts of the agent too. */
export async function pauseOrResume(rooms: Rooms, name: 'pauseNode' | 'resumeNode'): Outcome {
  const { unloadReasons, history, link, changed } = rooms
  const texts = pauseTexts[name]
  const isPaused = unloadReasons.pausedSince !== undefined
  if (isPaused === (name === 'pauseNode')) return done(texts.already)
  await unloadReasons.pause(isPaused ? undefined : new Date().toISOString())
  history.add({ kind: 'settingsChanged', message: texts.history, undo: texts.undo })
  link.session?.reconciler.enqueueAll()
  changed()
  return done(texts.done)
}

/** Looks at everything again, as after a wake. It begins once the answer is sent, which it would delay. */
export function resync({ link }: Rooms): Outcome {
  if (!link.session) return Promise.resolve(refused(`There is no cluster to look at: ${link.view().message}`))
  setImmediate(() => {
    link.session?.cluster.resync()
    link.session?.reconciler.retryAll()
  })
  return Promise.resolve(
    accepted('The agent is listing everything in the cluster again, and compares it with what runs here.'),
  )
}

/** Ends the agent once the answer is sent. */
export function shutdown({ onShutdown }: Rooms, { keepServing }: Extract<Command, { name: 'shutdown' }>): Outcome {
  if (!onShutdown) return Promise.resolve(refused('Only the program that runs this agent can end it.'))
  setImmediate(() => onShutdown({ keepServing }))
  return Promise.resolve(
    accepted(
      keepServing
        ? 'The agent is stopping; its servers keep running and stay published, and the next agent on this state folder takes them over.'
        : 'The agent is stopping: it withdraws what it serves, lets requests in flight finish and stops its servers.',
    ),
  )
}
