import { Command, CommanderError } from 'commander'
import { buildInfo, versionText } from '../agent-core/agent/build-info.ts'
import { VerbError, type VerbContext } from './agent-session.ts'
import { helpText, type FlagDefaults } from './flags.ts'
import { exitCodes, type CliIo } from './io.ts'
import { addVerb, modelsVerb } from './model-verbs.ts'
import { completionVerb } from './completion-verb.ts'
import { diagnoseVerb, doctorVerb, fleetVerb, whyVerb } from './doctor.ts'
import { logVerb, storyVerbCommands } from './story-verbs.ts'
import { fitVerb, headlessVerb, installVerb, migrateVerb, powerVerb, uninstallVerb } from './installation-verbs.ts'
import { nodeVerbCommands, rightsVerb, serviceVerbCommands, uiVerb } from './node-verbs.ts'
import { settingsVerb } from './settings-verbs.ts'
import { statusVerbCommands } from './status-verbs.ts'

/** `metal-agent <verb> …`; answers the exit code. */
export async function runVerb(args: readonly string[], io: CliIo, defaults: FlagDefaults): Promise<number> {
  let code: number = exitCodes.done
  const program = verbProgram({ io, defaultStateDir: defaults.stateDir, end: (ended) => (code = ended) }, defaults)
  try {
    await program.parseAsync(args, { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof VerbError) {
      io.stderr.write(`metal-agent: ${error.message}\n`)
      return exitCodes.wrongUsage
    }
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? exitCodes.done : exitCodes.wrongUsage
  }
}

/** Every verb; what runs one tells the context its exit code. */
export function verbProgram(context: VerbContext, defaults: FlagDefaults): Command {
  const { io } = context
  const program = new Command('metal-agent').helpCommand(false).helpOption('-h, --help', 'print this')
  const verbs = [
    ...statusVerbCommands(context),
    ...serviceVerbCommands(context),
    addVerb(context),
    logVerb(context),
    uiVerb(context),
    ...storyVerbCommands(context),
    modelsVerb(context),
    fitVerb(context),
    settingsVerb(context),
    ...nodeVerbCommands(context),
    rightsVerb(context),
    powerVerb(context),
    doctorVerb(context),
    diagnoseVerb(context),
    whyVerb(context),
    fleetVerb(context),
    installVerb(context),
    headlessVerb(context),
    uninstallVerb(context),
    migrateVerb(context),
  ]
  for (const verb of verbs) program.addCommand(verb)
  program.addCommand(completionVerb(program, context))
  program.addCommand(
    new Command('version')
      .description('print version, git commit and build date')
      .action(() => void io.stdout.write(versionText(buildInfo))),
  )
  program.addCommand(
    new Command('help')
      .description('print the flags of the agent, or the options of a verb')
      .argument('[verb]')
      .action((name: string | undefined) => {
        const verb = program.commands.find((one) => one.name() === name)
        if (verb) verb.outputHelp()
        else io.stdout.write(helpText(defaults, program.commands.map(summaryOf)))
      }),
  )
  for (const command of allBelow(program)) {
    command.exitOverride().configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => write(asSentence(text)),
    })
  }
  return program
}

const allBelow = (command: Command): Command[] => [command, ...command.commands.flatMap(allBelow)]

const summaryOf = (verb: Command): readonly [usage: string, does: string] => {
  const words = verb.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`))
  const below = verb.commands.map((one) => one.name()).join('|')
  return [[verb.name(), ...(below === '' ? [] : [below]), ...words].join(' '), verb.description()]
}

/** Commander puts its advice on a line of its own. */
const asSentence = (text: string) =>
  `metal-agent: ${text
    .replace(/^error: /, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' ')}\n`
