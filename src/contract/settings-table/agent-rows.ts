import { z } from 'zod'
import type { EditableRow } from '../setting-row.ts'
import { whole } from '../setting-schemas.ts'

/** As the Go agent reads `--log-level`: whatever it does not know means info. */
export function parseLogLevel(text: string): 'debug' | 'info' | 'warn' | 'error' {
  const level = text.toLowerCase()
  if (level === 'warning') return 'warn'
  return level === 'debug' || level === 'warn' || level === 'error' ? level : 'info'
}

export const agentRows = {
  serverLogBytes: {
    kind: 'bytes',
    schema: z
      .int({ error: 'must be from 64Ki to 10Gi' })
      .min(65_536, 'must be at least 64Ki')
      .max(10_737_418_240, 'must be at most 10Gi'),
    default: 20_971_520,
    group: 'Agent',
    flag: 'server-log-size',
    help: "bytes that each file of a server's log may have, such as 512Ki or 1Gi",
    counts: 'nextAgent',
    trust: 'page',
  },
  serverLogFiles: {
    kind: 'count',
    schema: whole(0, 100, 'must be a number from 0 to 100'),
    default: 3,
    group: 'Agent',
    flag: 'server-log-count',
    help: "how many older files of a server's log are kept",
    counts: 'nextAgent',
    trust: 'page',
  },
  logLevel: {
    kind: 'choice',
    schema: z.enum(['debug', 'info', 'warn', 'error'], { error: 'must be debug, info, warn or error' }),
    default: 'info',
    group: 'Agent',
    flag: 'log-level',
    flagTakes: { what: 'anything else means info', why: 'so does the Go agent', read: parseLogLevel },
    help: "how much goes to the agent's own log: debug, info, warn or error",
    counts: 'now',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>
