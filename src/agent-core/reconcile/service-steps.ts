import { isShedding, type Absence } from './absence.ts'
import type { ClusterWrites } from './cluster-writes.ts'
import type { ModelFetch } from './model-fetch.ts'
import type { Observation } from './plan/observation.ts'
import type { Plan } from './plan/step.ts'
import type { Reading } from './reading.ts'
import type { ServerStarts } from './server-starts.ts'

/** An evicted model gets a few seconds for its requests, since memory is short. */
const shedDrainMs = 5_000

interface ServiceParts {
  readonly fetch: ModelFetch
  readonly starts: ServerStarts
  readonly writes: ClusterWrites
}

interface StepContext {
  readonly reading: Reading
  readonly observed: Observation
  readonly absence: Absence | undefined
}

/** Takes the step that was planned for one service: which part of it does what. */
export async function takeStep(
  { step, message }: Plan,
  { fetch, starts, writes }: ServiceParts,
  { reading, observed, absence }: StepContext,
): Promise<void> {
  const { desiredServer, target } = reading
  const start = async (role: 'current' | 'successor'): Promise<void> => {
    const { model } = fetch
    if (!desiredServer || !model) return
    if (!(await starts.start(role, reading, desiredServer, model))) fetch.cancel()
  }
  switch (step.do) {
    case 'claim':
    case 'ensureService':
    case 'publish':
    case 'withdraw':
    case 'withdrawDead':
    case 'release':
    case 'unpublish':
    case 'remove':
      return writes.perform(step, target, observed.publication)
    case 'fetch':
      if (desiredServer) fetch.begin(desiredServer)
      return
    case 'cancelFetch':
      fetch.cancel()
      return
    case 'sizeUp':
      if (desiredServer && fetch.model) await starts.compare(reading, desiredServer, fetch.model)
      return
    case 'start':
      return start('current')
    case 'startBeside':
      return start('successor')
    case 'promote':
      starts.promote()
      return
    case 'dropSuccessor':
      starts.dropSuccessor()
      return
    case 'stop':
      starts.stop(message, isShedding(absence) ? { drainMs: shedDrainMs } : {})
      return
    case 'rest':
      return
  }
}
