import type { EditableRow } from '../setting-row.ts'
import { absolutePath, dayMs, hourMs, nonEmpty, number, zeroMeansDefault } from '../setting-schemas.ts'

export const serverRows = {
  llamaServer: {
    kind: 'executable',
    schema: absolutePath,
    defaultMeans: '/opt/homebrew/bin, then /usr/local/bin, then on Linux PATH and /home/linuxbrew/.linuxbrew/bin',
    group: 'llama-server',
    flag: 'llama-server',
    aliases: ['llama-server-bin'],
    flagTakes: {
      what: 'a name without a slash is looked for in PATH',
      why: 'the Go agent starts what is given without a look at it',
      schema: nonEmpty,
    },
    help: 'path of the llama-server binary',
    counts: 'nextServer',
    trust: 'shell',
  },
  drainLimitMs: {
    kind: 'duration',
    schema: number(0, hourMs, 'must be from 0 to 1h'),
    default: 30_000,
    group: 'llama-server',
    flag: 'drain-timeout',
    help: 'how long requests in flight may take to finish before their server is stopped; 0 cuts them',
    counts: 'nextServer',
    trust: 'page',
  },
  startupStallMs: {
    kind: 'duration',
    schema: number(1_000, dayMs, 'must be from 1s to 24h'),
    default: 120_000,
    group: 'llama-server',
    flag: 'llama-server-startup-timeout',
    spelled: 'startup-timeout',
    flagTakes: zeroMeansDefault,
    help: 'longest time without progress while a model loads',
    counts: 'nextServer',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>
