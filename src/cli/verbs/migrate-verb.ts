import path from 'node:path'
import { Command, Option } from 'commander'
import { z } from 'zod'
import type { VerbContext } from './verb.ts'

const given = z.object({
  plan: z.boolean().default(false),
  yes: z.boolean().default(false),
  anyway: z.boolean().default(false),
  stopOthers: z.boolean().default(false),
  plist: z.string().min(1).optional(),
  undo: z.boolean().default(false),
  confirm: z.boolean().default(false),
})

/** From LLMKube's Go agent to this one, and back. */
export function migrateVerb({ io, end }: VerbContext): Command {
  return new Command('migrate')
    .description(
      "move this Mac from LLMKube's Go agent to this agent: say what would be done, ask, and do it with one restart of each model",
    )
    .argument('[flags...]', 'flags of this agent, after --; they win over those of the Go agent')
    .option('--plan', 'say what would be done, and change nothing')
    .option('-y, --yes', 'do it without asking')
    .option('--plist <file>', 'plist of the Go agent; left out, the one that launchd would load')
    .option('--stop-others', 'end other Go agents of this user before')
    .option('--anyway', 'also where this agent would refuse a service, which is unserved then')
    .addOption(new Option('--undo', 'go back to the Go agent').conflicts(['plan', 'confirm']))
    .addOption(new Option('--confirm', 'remove what is kept for --undo').conflicts(['plan']))
    .action(async (flags: string[], options: unknown) => {
      const { plan, yes, anyway, stopOthers, plist, undo, confirm } = given.parse(options)
      const { migrateHere } = await import('../migrate/migrate.ts')
      end(
        await migrateHere(
          {
            deed: undo ? 'undo' : confirm ? 'confirm' : plan ? 'plan' : 'migrate',
            isConfirmed: yes,
            anyway,
            stopsOthers: stopOthers,
            plist: plist === undefined ? undefined : path.resolve(io.cwd, plist),
            flags,
          },
          io,
        ),
      )
    })
}
