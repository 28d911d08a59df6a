import path from 'node:path'
import { Command, CommanderError } from 'commander'
import { z } from 'zod'
import { buildInfo, versionText } from '../agent-core/build-info.ts'
import type { FlagDefaults } from './flags.ts'
import { helpText } from './help.ts'
import { exitCodes, type CliIo } from './io.ts'
import { status } from './status.ts'

const statusOptions = z.object({ json: z.boolean().default(false), stateDir: z.string() })

/** `metal-agent <verb> …`; answers the exit code. */
export async function runVerb(args: readonly string[], io: CliIo, defaults: FlagDefaults): Promise<number> {
  let code: number = exitCodes.done
  const program = new Command('metal-agent')
    .exitOverride()
    .helpCommand(false)
    .helpOption('-h, --help', 'print this')
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => write(asSentence(text)),
    })
  const statusVerb = program
    .command('status')
    .description('show what a running agent does; exit code 3 means that none is running')
    .option('--json', 'print the snapshot as JSON')
    .option('--state-dir <folder>', 'state folder of the agent', defaults.stateDir)
    .action(async (options: unknown) => {
      const { json, stateDir } = statusOptions.parse(options)
      code = await status({ json, stateDir: path.resolve(io.cwd, stateDir) }, io)
    })
  program
    .command('version')
    .description('print version, git commit and build date')
    .action(() => void io.stdout.write(versionText(buildInfo)))
  program
    .command('help [verb]')
    .description('print the flags of the agent, or the options of a verb')
    .action((verb: unknown) => {
      if (verb === 'status') statusVerb.outputHelp()
      else io.stdout.write(helpText(defaults))
    })
  try {
    await program.parseAsync(args, { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? exitCodes.done : exitCodes.wrongUsage
  }
}

/** Commander puts its advice on a line of its own. */
const asSentence = (text: string) =>
  `metal-agent: ${text
    .replace(/^error: /, '')
    .trim()
    .replace(/\s*\n\s*/g, ' ')}\n`
