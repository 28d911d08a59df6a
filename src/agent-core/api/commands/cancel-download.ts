import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { done, refused, type Outcome } from './results.ts'
import { holdHere, knownService, type Rooms } from './rooms.ts'

/** Ends a download and does not begin it again until a person starts the service. */
export async function cancelDownload(rooms: Rooms, { service }: Extract<Command, { name: 'cancelDownload' }>): Outcome {
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  const { fetch, observed, plan } = known.report
  // A download that is just about to begin is shown as one already.
  if (!fetch.isRunning && plan.state !== 'fetching') return refused(`Nothing is being downloaded for ${key}.`)
  if (observed.server.kind === 'ready' || observed.server.kind === 'unready') {
    return refused(
      `${key} serves its previous model while the new one is downloaded; only a stop of the service ends that.`,
      {
        command: { name: 'stop', service, scope: 'here' },
        label: 'Stop only on this machine',
      },
    )
  }
  await holdHere(rooms, known, 'downloadCancelled', 'Its download was cancelled, by a person; Start goes on with it.')
  return done(`The download for ${key} is cancelled; what has arrived is kept, and Start goes on from there.`)
}
