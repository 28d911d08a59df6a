import type { Command, Option } from 'commander'
import { defaultModelStore } from '../src/agent-core/models/default-store.ts'
import { defaultStateDir } from '../src/agent-core/state/state-folder.ts'
import { defaultText, exitCodeTexts, flagTable, flagUsage, type FlagDefaults } from '../src/cli/flags.ts'
import { verbProgram } from '../src/cli/verbs.ts'
import { settingSections } from '../src/contract/settings-table.ts'

/** A word that is typed, and what it does. */
export type Entry = readonly [word: string, text: string]

export interface CliReference {
  readonly exitCodes: readonly Entry[]
  readonly verbs: readonly { readonly usage: string; readonly text: string; readonly entries: readonly Entry[] }[]
  readonly flagSections: readonly { readonly section: string; readonly entries: readonly Entry[] }[]
}

const home = '~'

/** What `--help` says of every flag and verb, for docs/cli.md and the man page; with the defaults of a platform. */
export function cliReference(platform: 'darwin' | 'linux'): CliReference {
  const defaults: FlagDefaults = {
    modelStore: defaultModelStore(platform, {}, home),
    stateDir: defaultStateDir(platform, {}, home),
  }
  const silent = { write: () => undefined }
  const io = { stdout: silent, stderr: silent, env: {}, homeDir: home, temporaryDir: '/tmp', cwd: home }
  const program = verbProgram(
    { io: { ...io, platform, windowFolder: '' }, defaultStateDir: defaults.stateDir, end: () => undefined },
    defaults,
  )
  const flags = Object.entries(flagTable(defaults))
  return {
    exitCodes: exitCodeTexts.map(([code, meaning]) => [String(code), meaning]),
    verbs: program.commands.flatMap((verb) => (verb.commands.length > 0 ? verb.commands : [verb])).map(verbOf),
    flagSections: settingSections.map((section) => ({
      section,
      entries: flags.flatMap(([name, flag]) =>
        flag.section === section ? [[flagUsage(name, flag), `${flag.help}${defaultText(flag)}`] as const] : [],
      ),
    })),
  }
}

function verbOf(verb: Command): CliReference['verbs'][number] {
  const parent = verb.parent?.name() === 'metal-agent' ? '' : `${verb.parent?.name() ?? ''} `
  const words = verb.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`))
  return {
    usage: ['metal-agent', `${parent}${verb.name()}`, ...words].join(' '),
    text: sentence(verb.description()),
    entries: [
      ...verb.registeredArguments.map((one) => [one.name(), one.description] as const),
      ...verb.options.map((option: Option) => [option.flags, `${option.description}${defaultOf(option)}`] as const),
    ],
  }
}

const defaultOf = ({ defaultValue }: Option): string =>
  defaultValue === undefined ? '' : ` (default ${String(defaultValue)})`

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
