import { Command, Option } from 'commander'
import { z } from 'zod'
import { VerbError } from '../agent-session.ts'
import type { VerbContext } from './verb.ts'

const given = z.object({
  daemon: z.boolean().default(false),
  user: z.string().min(1).max(255).optional(),
  env: z.array(z.string()).default([]),
  force: z.boolean().default(false),
  dryRun: z.boolean().default(false),
  platform: z.enum(['darwin', 'linux']).optional(),
})

/** The headless service: launchd or systemd starts the agent and keeps it. */
export function installVerb({ io, end }: VerbContext): Command {
  return new Command('install')
    .description('have launchd or systemd run the agent as a service, or change the one there is; models serve on')
    .argument('[flags...]', 'flags of the agent, after --')
    .option('--daemon', 'on a Mac: with nobody logged in, as a LaunchDaemon; needs sudo')
    .option('--user <name>', 'with --daemon: whose agent it is; default the one who runs sudo')
    .option('--env <name=value>', 'a variable of the environment that the agent gets; may be repeated', collected)
    .option('--force', 'replace a file that was changed by hand, which is kept')
    .option('--dry-run', 'print the file and do nothing')
    .addOption(
      new Option('--platform <system>', 'with --dry-run: the file of another system').choices(['darwin', 'linux']),
    )
    .action(async (flags: string[], options: unknown) => {
      const { env, user, platform, ...switches } = given.parse(options)
      const { install } = await import('../service/install.ts')
      end(
        await install(
          { ...switches, user, platform, flags, env: Object.fromEntries(env.map(variable)), isMove: false },
          io,
        ),
      )
    })
}

const collected = (one: string, before: readonly string[] = []): string[] => [...before, one]

function variable(text: string): [string, string] {
  const [, name, value] = /^([A-Za-z_]\w*)=([^]*)$/.exec(text) ?? []
  if (name === undefined || value === undefined) {
    throw new VerbError(`--env wants NAME=VALUE, not ${JSON.stringify(text)}.`)
  }
  return [name, value]
}
