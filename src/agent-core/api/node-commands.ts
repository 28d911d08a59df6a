import { accepted, done, type Outcome, refused, type Rooms } from './command.ts'
import type { Command } from '../../contract/commands.ts'

/** Endpoints are withdrawn, models stay in memory; kept over restarts of the agent. */
export async function pauseNode(rooms: Rooms): Outcome {
  if (rooms.unloadReasons.pausedSince !== undefined) return done('This machine is paused already.')
  await rooms.unloadReasons.pause(new Date().toISOString())
  rooms.history.add({
    kind: 'settingsChanged',
    message: 'This machine was paused by a person.',
    undo: { name: 'resumeNode' },
  })
  rooms.session()?.reconciler.enqueueAll()
  rooms.agent.changed()
  return done('This machine is paused: its addresses are withdrawn, its models stay in memory, and nothing is started.')
}

export async function resumeNode(rooms: Rooms): Outcome {
  if (rooms.unloadReasons.pausedSince === undefined) return done('This machine is not paused.')
  await rooms.unloadReasons.pause(undefined)
  rooms.history.add({
    kind: 'settingsChanged',
    message: 'This machine was resumed by a person.',
    undo: { name: 'pauseNode' },
  })
  rooms.session()?.reconciler.enqueueAll()
  rooms.agent.changed()
  return done('This machine serves again: what answers is published.')
}

/** After the machine ended in disorder while models ran. */
export async function serveAgain({ fuse, history }: Rooms): Outcome {
  if (!(await fuse.serveAgain())) return done('No model is held back: models start as usual.')
  history.add({ kind: 'settingsChanged', message: 'Models that were held back are served again, on request.' })
  return done('Models are served again: what was held back starts now, as far as memory allows.')
}

/** Looks at everything again, as after a wake. It begins once the answer is sent, which it would delay. */
export function resync({ session, agent }: Rooms): Outcome {
  if (!session()) return Promise.resolve(refused(`There is no cluster to look at: ${agent.clusterMessage()}`))
  setImmediate(() => {
    const current = session()
    current?.cluster.resync()
    current?.reconciler.retryAll()
  })
  return Promise.resolve(accepted('Everything in the cluster is listed again and compared with what runs here.'))
}

/** Ends the agent, after the answer was given. */
export function shutdown({ agent }: Rooms, { keepServing }: Extract<Command, { name: 'shutdown' }>): Outcome {
  const { shutDown } = agent
  if (!shutDown) return Promise.resolve(refused('This agent is ended by the program that runs it.'))
  setImmediate(() => shutDown({ keepServing }))
  return Promise.resolve(
    accepted(
      keepServing
        ? 'The agent ends; its servers and what is published of them stay, for the next agent on this state folder to take over.'
        : 'The agent ends: it withdraws what it serves, lets requests in flight finish and stops its servers.',
    ),
  )
}
