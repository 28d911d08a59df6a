import { Command, CommanderError } from 'commander'
import { VerbError, type VerbContext } from './agent-session.ts'
import { flagsText, helpText, type FlagDefaults } from './flags.ts'
import { exitCodes, type CliIo } from './io.ts'
import { addVerb, modelsVerb } from './model-verbs.ts'
import { doctorVerb, fleetVerb } from './doctor.ts'
import { historyVerb, logVerb } from './story-verbs.ts'
import { fitVerb, headlessVerb, installVerb, migrateVerb, powerVerb, uninstallVerb } from './installation-verbs.ts'
import { nodeVerbCommands, rightsVerb, serviceVerbCommands, uiVerb } from './node-verbs.ts'
import { settingsVerb } from './settings-verbs.ts'
import { statusVerb } from './status-verbs.ts'

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
    statusVerb(context),
    ...serviceVerbCommands(context),
    addVerb(context),
    logVerb(context),
    uiVerb(context),
    historyVerb(context),
    modelsVerb(context),
    fitVerb(context),
    settingsVerb(context),
    ...nodeVerbCommands(context),
    rightsVerb(context),
    powerVerb(context),
    doctorVerb(context),
    fleetVerb(context),
    installVerb(context),
    headlessVerb(context),
    uninstallVerb(context),
    migrateVerb(context),
  ]
  for (const verb of verbs) program.addCommand(verb)
  program.addCommand(
    new Command('help')
      .description('print this, the options of a verb, or the flags of the agent')
      .argument('[about]', 'a verb, or "flags"')
      .action((about: string | undefined) => {
        const verb = program.commands.find((one) => one.name() === about)
        if (verb) verb.outputHelp()
        else io.stdout.write(about === 'flags' ? flagsText(defaults) : helpText(program.commands.map(summaryOf)))
      }),
  )
  program.hook('preAction', (_, verb) => {
    const empty = verb.options.find((option) => verb.getOptionValue(option.attributeName()) === '')
    if (empty) throw new VerbError(`${empty.long ?? empty.flags} wants a value that is not empty.`)
  })
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

/** A verb's line in the overview: what it does ends at the first colon or semicolon of its description. */
const summaryOf = (verb: Command): readonly [usage: string, does: string] => {
  const words = verb.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`))
  const below = verb.commands.length === 0 ? [] : ['…']
  const [does = ''] = verb.description().split(/[:;]/)
  return [[verb.name(), ...below, ...words].join(' '), does]
}

/** Commander puts its advice on a line of its own. */
const asSentence = (text: string) =>
  `metal-agent: ${text
    .replace(/^error: /, '')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' ')}\n`
