import { constants } from 'node:os'
import { Command } from 'commander'
import { z } from 'zod'
import type { VerbContext } from './verb.ts'

const given = z.object({ json: z.boolean().default(false) })

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** What the agent relies on of this machine, asked of the machine itself; needs no agent. */
export const selftestVerb = ({ io, end }: VerbContext): Command =>
  new Command('selftest')
    .description('ask this machine all that the agent relies on of it, and print a report to paste into an issue')
    .option('--json', 'print the report as JSON')
    .action(async (options: unknown) => {
      const { runSelftest } = await import('../selftest/selftest.ts')
      const stop = new AbortController()
      const stopBy = (signal: (typeof signals)[number]) => stop.abort(signal)
      // The processes that it starts are in groups of their own, which a Ctrl-C does not reach.
      for (const signal of signals) process.on(signal, stopBy)
      try {
        const code = await runSelftest(io, { ...given.parse(options), stop: stop.signal })
        const stoppedBy = signals.find((signal) => signal === stop.signal.reason)
        end(stoppedBy === undefined ? code : signalCode + constants.signals[stoppedBy])
      } finally {
        for (const signal of signals) process.removeListener(signal, stopBy)
      }
    })

/** As shells say that a signal ended something: with its number added. */
const signalCode = 128
