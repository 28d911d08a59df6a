import { formatBytes } from '../../contract/format.ts'
import type { CrashView, ServiceView, Step, StepName } from '../../contract/service.ts'
import { stepWords } from '../../contract/words.ts'
import type { RowSteps } from '../row-steps.ts'
import { notReported } from './services.ts'

export const detailWords = {
  /** Before an age. */
  for: 'for',
  namespace: (namespace: string) => `namespace ${namespace}`,
  download: 'Download',
  model: 'Model',
  server: 'Server',
  restarts: 'Restarts',
  serverOf: ({ runtime, port, pid }: ServiceView): string =>
    [
      runtime,
      ...(port === undefined ? [] : [`port ${port}`]),
      ...(pid === undefined ? ['not running'] : [`process ${pid}`]),
    ].join(' · '),
} as const

const goesOn: Readonly<Record<StepName, string>> = {
  fetched: 'Fetching',
  started: 'Starting',
  healthy: 'Getting healthy',
  published: 'Publishing',
  clusterAgrees: 'The cluster looks at it',
}

const failed: Readonly<Record<StepName, string>> = {
  fetched: 'Not fetched',
  started: 'Not started',
  healthy: 'Not healthy',
  published: 'Not published',
  clusterAgrees: 'The cluster disagrees',
}

/** Where it stands: `Getting healthy`, `Not started`, `Next: Published`. */
function standing({ at, status }: RowSteps): string {
  if (status === 'active') return goesOn[at]
  return status === 'failed' ? failed[at] : `Next: ${stepWords[at]}`
}

export const stepsWords = {
  title: 'Steps',
  status: {
    done: 'done',
    active: 'in progress',
    waiting: 'not yet',
    failed: 'failed',
  } satisfies Record<Step['status'], string>,
  at: standing,
  /** As it is heard: `2 of 5 steps done. Getting healthy.` */
  row: (steps: RowSteps) => `${steps.done} of ${steps.statuses.length} steps done. ${standing(steps)}.`,
} as const

const times = (count: number) => (count === 1 ? 'once' : `${count} times in a row`)

export const crashWords = {
  title: 'Crash',
  crashed: ({ failures }: CrashView, isOver: boolean) =>
    `${failures === 0 ? 'Crashed earlier' : `Crashed ${times(failures)}`}${isOver ? ', and serves again' : ''}`,
  how: 'How',
  when: 'When',
  ago: 'ago',
  memory: 'Memory then',
  lastLines: (count: number) => (count === 1 ? 'Last line before the crash' : `Last ${count} lines before the crash`),
  held: ({ memory }: CrashView) => (memory === undefined ? notReported : formatBytes(memory.residentBytes)),
  nextAttempt: 'Next attempt',
  /** How the server ended, as far as that is known. */
  end({ exitCode, signal }: CrashView): string {
    if (signal !== undefined) return `Ended by ${signal}`
    return exitCode === undefined ? 'Ended' : `Exit code ${exitCode}`
  },
} as const
