import { Command } from 'commander'
import { z } from 'zod'
import { VerbError } from '../agent-session.ts'
import type { CliIo } from '../io.ts'
import { group } from './node-verbs.ts'
import type { VerbContext } from './verb.ts'

const given = z.object({
  user: z.string().min(1).max(255).optional(),
  json: z.boolean().default(false),
  dryRun: z.boolean().default(false),
})

/** Leave to measure power: a rule of sudo, which needs no agent. */
export function powerVerb({ io, end }: VerbContext): Command {
  const verb = (name: string, description: string): Command =>
    new Command(name)
      .description(description)
      .option('--user <name>', 'whose agent measures; left out, who runs this, under sudo who called sudo')
  const status = verb('status', 'say whether sudo lets the agent measure power, and by which rule')
    .option('--json', 'print the answer as JSON')
    .action(async (options: unknown) => {
      onlyOnMacs(io)
      const { user, json } = given.parse(options)
      const { ruleStatus, sudoUser } = await import('../power/power-rule.ts')
      end(await ruleStatus(await sudoUser(user, io.env), io, json))
    })
  const install = verb('install', 'let the agent run powermetrics by exact command lines, without a password')
    .option('--dry-run', 'print the rule and do nothing')
    .action(async (options: unknown) => {
      const { user, dryRun } = given.parse(options)
      if (!dryRun) onlyOnMacs(io)
      const { installRule, sudoUser } = await import('../power/power-rule.ts')
      const { fragmentFor } = await import('../../agent-core/power/sudoers.ts')
      const whose = await sudoUser(user, io.env)
      if (dryRun) io.stdout.write(fragmentFor(whose))
      else end(await installRule(whose, io))
    })
  const remove = verb('remove', 'take that rule away').action(async (options: unknown) => {
    onlyOnMacs(io)
    const { removeRule, sudoUser } = await import('../power/power-rule.ts')
    end(await removeRule(await sudoUser(given.parse(options).user, io.env), io))
  })
  return group('power', 'show, install or remove leave to measure power', [status, install, remove])
}

function onlyOnMacs({ platform }: CliIo): void {
  if (platform !== 'darwin') throw new VerbError('Power is read from powermetrics, which only macOS has.')
}
