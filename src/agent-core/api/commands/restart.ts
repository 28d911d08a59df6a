import { refKey } from '../../util/object-key.ts'
import type { Command } from '../../../contract/commands.ts'
import { accepted, refused, type Outcome } from './results.ts'
import { knownService, type Rooms } from './rooms.ts'

/** A new server process, also in place of a serving one; the back-off after crashes ends. */
export function restart(rooms: Rooms, { service }: Extract<Command, { name: 'restart' }>): Outcome {
  return Promise.resolve(restarted(rooms, service))
}

function restarted(rooms: Rooms, service: Parameters<typeof refKey>[0]) {
  const known = knownService(rooms, service)
  if (typeof known === 'string') return refused(known)
  const key = refKey(service)
  const { reconciler } = known.session
  const { plan, observed } = known.report
  if (observed.paused) return refused(`${key} is not restarted: this machine is paused; resume it first.`)
  if (observed.desired.kind === 'stopped' || observed.desired.kind === 'held') {
    return refused(`${key} is not restarted, since it is stopped. ${plan.message}`, {
      command: { name: 'start', service },
      label: 'Start',
    })
  }
  if (plan.state === 'foreign' || observed.desired.kind !== 'serve' || !reconciler.restart(key)) {
    return refused(`${key} is not restarted. ${plan.message}`)
  }
  if (plan.reason === 'Idle') return accepted(`${key} is started.`)
  const { kind } = observed.successor
  if (kind === 'starting' || kind === 'ready') {
    return accepted(`${key} is being replaced already: the new server takes over as soon as it answers.`)
  }
  return accepted(
    `${key} is restarted: a new server takes the place of the present one, and what is in flight finishes.`,
  )
}
