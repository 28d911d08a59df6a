import { type ServiceView, type Step, type StepName, stepNames } from '../contract/service.ts'

/** How far a service has come, as far as that says more than its state does. */
export interface RowSteps {
  readonly statuses: readonly (readonly [StepName, Step['status']])[]
  readonly done: number
  /** The step shown: the one that failed, else the one under way, else the next one. */
  readonly at: StepName
  readonly status: Step['status']
}

/** Nothing is on its way there, or all that can be said is in its sentence. */
const quiet: ReadonlySet<ServiceView['state']> = new Set(['stopped', 'stopping', 'foreign'])

/** Undefined of a service that is simply ready, or not on its way at all. */
export function rowSteps({ state, steps }: Pick<ServiceView, 'state' | 'steps'>): RowSteps | undefined {
  const statuses = stepNames.map((name) => [name, steps[name].status] as const)
  const first = (status: Step['status']) => statuses.find(([, is]) => is === status)
  const [at, status] = first('failed') ?? first('active') ?? first('waiting') ?? []
  if (at === undefined || status === undefined || quiet.has(state)) return undefined
  const isBegun = statuses.some(([, is]) => is !== 'waiting')
  if (state === 'refused' && !isBegun) return undefined
  // Without a controller the last step never ends, although the service serves.
  if (state === 'ready' && status !== 'failed' && at === 'clusterAgrees') return undefined
  return { statuses, done: statuses.filter(([, is]) => is === 'done').length, at, status }
}
