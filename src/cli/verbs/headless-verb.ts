import { Command } from 'commander'
import { z } from 'zod'
import { VerbError } from '../agent-session.ts'
import { group } from './node-verbs.ts'
import type { VerbContext } from './verb.ts'

const given = z.object({
  json: z.boolean().default(false),
  follow: z.boolean().default(false),
  lines: z.coerce
    .number()
    .refine((count) => Number.isInteger(count) && count >= 1 && count <= 100_000)
    .default(200),
})

/** What `install` made, after it was made. */
export function headlessVerb({ io, end }: VerbContext): Command {
  const status = new Command('status')
    .description('say whether the service is installed and runs, with which command and flags')
    .option('--json', 'print the answer as JSON')
    .action(async (options: unknown) => {
      const { status: say } = await import('../service/installed.ts')
      end(await say(io, given.parse(options).json))
    })
  const restart = new Command('restart')
    .description('restart the agent of the service; its model servers go on')
    .action(async () => {
      const { restart: begin } = await import('../service/installed.ts')
      end(await begin(io))
    })
  const set = new Command('set')
    .description('change one flag of the service, and restart it; its model servers go on')
    .allowUnknownOption()
    .argument('<flag>', 'a flag of the agent, with or without its dashes')
    .argument('<value>', 'a value, or "default" to take the flag away')
    .action(async (flag: string, value: string) => {
      const { setFlag } = await import('../service/installed.ts')
      end(await setFlag(flag, value, io))
    })
  const logs = new Command('logs')
    .description("print the service's own log")
    .option('-f, --follow', 'go on with what it writes')
    .option('-n, --lines <count>', 'how many lines', '200')
    .action(async (options: unknown) => {
      const parsed = given.safeParse(options)
      if (!parsed.success) throw new VerbError('--lines wants a whole number from 1 to 100000.')
      const { logs: print } = await import('../service/installed.ts')
      end(await print(io, parsed.data))
    })
  return group('service', 'show, restart or change the service that install made', [status, restart, set, logs])
}
