import { Command } from 'commander'
import { z } from 'zod'
import type { VerbContext } from './verb.ts'

const given = z.object({ keepServing: z.boolean().default(false) })

/** Takes away what `install` made. */
export function uninstallVerb({ io, end }: VerbContext): Command {
  return new Command('uninstall')
    .description('remove the service: withdraw, let requests finish, stop the servers; models and settings stay')
    .option('--keep-serving', 'leave the servers and their endpoints as they are, for the next agent to adopt')
    .action(async (options: unknown) => {
      const { keepServing } = given.parse(options)
      const { uninstall } = await import('../service/uninstall.ts')
      end(await uninstall(io, keepServing))
    })
}
