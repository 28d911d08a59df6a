import { allRows } from '../src/agent-core/settings/settings.ts'
import { startRows } from '../src/agent-core/settings/start-rows.ts'
import { editableRow, formatSetting, settingNames, spellingOf } from '../src/contract/settings.ts'
import { countsTexts, type EditableRow, type SettingRow } from '../src/contract/settings-table.ts'
import { table } from './markdown-table.ts'

/** Every setting of the agent, as one page. */
export function settingsMarkdown(): string {
  return [
    '# Settings',
    '',
    'Made by `node tasks/docs.ts` from the table of settings. A flag wins over what a person set, and that over the default;',
    '`metal-agent settings get` shows each value and where it comes from. Notes on flags that say the same: [cli.md](cli.md).',
    '',
    '## What a person may change while the agent runs',
    '',
    'By `metal-agent settings set SETTING VALUE`; `default` as the value gives it back. What is set is kept in `settings.json` of the',
    'state folder. Who may set it: _page_ is also a page in a browser (`metal-agent ui`), _shell_ only who has a shell or the app on',
    'this machine. A value there that this build does not take is named in the log and among the notices, does not count, and costs no other;',
    'what another build wrote stays in the file.',
    '',
    ...table(
      ['setting', 'flag', 'default', 'must be', 'what it is', 'a change', 'who'],
      settingNames.map((name) => editableCells(`\`${spellingOf(name)}\``, editableRow(name))),
    ),
    '## What counts only from the start',
    '',
    'By a flag, or, where the app hosts the agent, by its name in `start-settings.json`. The settings of the window show each with its value,',
    'where that comes from, and the line that states another.',
    '',
    ...table(['flag', 'default', 'must be', 'what it is'], Object.values<SettingRow>(startRows).map(startCells)),
    '## What flags take beyond that',
    '',
    "A flag of the Go agent means what it means there, so that a command line written for it works here. An empty value, or 0 where that is no value, of a flag that may be absent is the same as no flag, and relative paths count from the agent's working folder.",
    '',
    ...table(
      ['flag', 'also', 'why'],
      Object.values<SettingRow>(allRows).flatMap(({ flag, flagTakes }) =>
        flagTakes ? [[`\`--${flag}\``, flagTakes.what, flagTakes.why]] : [],
      ),
    ),
  ].join('\n')
}

const editableCells = (name: string, row: EditableRow): string[] => [
  name,
  ...startCells(row),
  countsTexts[row.counts],
  row.trust,
]

const startCells = (row: SettingRow): string[] => [`\`--${row.flag}\``, defaultOf(row), boundsOf(row), row.help]

function defaultOf({ kind, default: fallback, startsAs, defaultMeans, required }: SettingRow): string {
  if (required) return 'see cli.md'
  if (startsAs !== undefined) return `\`${startsAs}\`; none = ${defaultMeans ?? ''}`
  if (fallback === undefined || typeof fallback === 'object') return defaultMeans ?? '–'
  const value = formatSetting(kind, fallback)
  return defaultMeans === undefined ? value : `${value} (${defaultMeans})`
}

/** What the schema says of no value at all, which names everything that it accepts. */
function boundsOf({ kind, schema }: SettingRow): string {
  if (kind === 'switch') return 'on or off'
  const message = schema.safeParse(undefined).error?.issues[0]?.message ?? ''
  return message.replace(/^must (not )?be /, '$1')
}
