import type { Command, Option } from 'commander'
import { defaultModelStore } from '../src/agent-core/models/default-store.ts'
import { defaultStateDir } from '../src/agent-core/state/state-folder.ts'
import { defaultText, exitCodeTexts, flagTable, flagUsage, type FlagDefaults } from '../src/cli/flags.ts'
import { verbProgram } from '../src/cli/verbs.ts'
import { settingGroups } from '../src/contract/settings-table.ts'
import { table } from './markdown-table.ts'

const home = '~'
const defaults: FlagDefaults = {
  modelStore: defaultModelStore('darwin', {}, home),
  stateDir: defaultStateDir('darwin', {}, home),
}

/** What `--help` says of every flag and verb, as one page. Defaults are those of macOS. */
export function cliMarkdown(): string {
  const silent = { write: () => undefined }
  const io = { stdout: silent, stderr: silent, env: {}, homeDir: home, temporaryDir: '/tmp', cwd: home }
  const program = verbProgram(
    {
      io: { ...io, platform: 'darwin', windowFolder: '' },
      defaultStateDir: defaults.stateDir,
      end: () => undefined,
    },
    defaults,
  )
  return [
    '# The command `metal-agent`',
    '',
    '`metal-agent [flags]` runs the agent; `metal-agent <verb>` talks to the one that runs on the same state folder, headless or in the',
    'app. This page is made by `node tasks/docs.ts` from what `metal-agent --help` prints.',
    '',
    '## Exit codes',
    '',
    ...table(
      ['code', 'meaning'],
      exitCodeTexts.map(([code, meaning]) => [String(code), meaning]),
    ),
    '## Verbs',
    '',
    ...program.commands.flatMap((verb) =>
      verb.commands.length > 0 ? verb.commands.flatMap(verbSection) : verbSection(verb),
    ),
    '## Flags of the agent',
    '',
    'Flags take one dash or two, and a value after a space or `=` (a switch, and `--ui`, only after `=`). A DURATION is such as `10s`, `2m` or',
    '`1m30s`, and BYTES are such as `512Ki`, `20Mi` or `1Gi`.',
    '',
    ...settingGroups.flatMap(flagSection),
  ].join('\n')
}

function verbSection(verb: Command): string[] {
  const parent = verb.parent?.name() === 'metal-agent' ? '' : `${verb.parent?.name() ?? ''} `
  const words = verb.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`))
  const usage = ['metal-agent', `${parent}${verb.name()}`, ...words].join(' ')
  const rows = [
    ...verb.registeredArguments.map((one) => [`\`${one.name()}\``, one.description]),
    ...verb.options.map((option: Option) => [`\`${option.flags}\``, `${option.description}${defaultOf(option)}`]),
  ]
  return [`### \`${usage}\``, '', sentence(verb.description()), '', ...(rows.length > 0 ? table(['', ''], rows) : [])]
}

const defaultOf = ({ defaultValue }: Option): string =>
  defaultValue === undefined ? '' : ` (default ${String(defaultValue)})`

function flagSection(group: (typeof settingGroups)[number]): string[] {
  const flags = Object.entries(flagTable(defaults)).filter(([, flag]) => flag.group === group)
  const rows = flags.map(([name, flag]) => [`\`${flagUsage(name, flag)}\``, `${flag.help}${defaultText(flag)}`])
  return [`### ${group}`, '', ...table(['flag', 'what it does'], rows)]
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
