import { Command } from 'commander'
import { z } from 'zod'
import type { VerbContext } from './verb.ts'

const given = z.object({ json: z.boolean().default(false) })

/** What the agent relies on of this machine, asked of the machine itself; needs no agent. */
export const selftestVerb = ({ io, end }: VerbContext): Command =>
  new Command('selftest')
    .description('ask this machine all that the agent relies on of it, and print a report to paste into an issue')
    .option('--json', 'print the report as JSON')
    .action(async (options: unknown) => {
      const { runSelftest } = await import('../selftest/selftest.ts')
      end(await runSelftest(io, given.parse(options)))
    })
