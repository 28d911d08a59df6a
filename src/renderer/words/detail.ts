import { formatBytes } from '../../contract/format.ts'
import type { CrashView, ServiceView, Step } from '../../contract/service.ts'
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

export const stepsWords = {
  title: 'Steps',
  status: {
    done: 'done',
    active: 'in progress',
    waiting: 'not yet',
    failed: 'failed',
  } satisfies Record<Step['status'], string>,
} as const

const times = (count: number) => (count === 1 ? 'once' : `${count} times in a row`)

export const crashWords = {
  title: 'Crash',
  crashed: ({ failures }: CrashView, isOver: boolean) =>
    `${failures === 0 ? 'Crashed earlier' : `Crashed ${times(failures)}`}${isOver ? ', and serves again' : ''}`,
  how: 'How',
  when: 'When',
  ago: 'ago',
  memory: 'Memory',
  held: ({ memory }: CrashView) => (memory === undefined ? notReported : formatBytes(memory.residentBytes)),
  nextAttempt: 'Next attempt',
  /** How the server ended, as far as that is known. */
  end({ exitCode, signal }: CrashView): string {
    if (signal !== undefined) return `Ended by ${signal}`
    return exitCode === undefined ? 'Ended' : `Exit code ${exitCode}`
  },
} as const
