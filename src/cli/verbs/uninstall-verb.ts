import { Command } from 'commander'
import { z } from 'zod'
import { ranEverything, withEverything } from '../uninstall/everything-options.ts'
import type { VerbContext } from './verb.ts'

const given = z.object({ keepServing: z.boolean().default(false), yes: z.boolean().default(false) })

/** Takes away what `install` made, or everything that was ever written. */
export function uninstallVerb(context: VerbContext): Command {
  const verb = new Command('uninstall')
    .description('remove the service: withdraw, let requests finish, stop the servers; models and settings stay')
    .option('--keep-serving', 'leave the servers and their endpoints as they are, for the next agent to adopt')
  return withEverything(verb, context).action(async (options: unknown) => {
    if (await ranEverything(context, options)) return
    const { keepServing, yes } = given.parse(options)
    const { uninstall } = await import('../service/uninstall.ts')
    context.end(await uninstall(context.io, { keepServing, isConfirmed: yes }))
  })
}
