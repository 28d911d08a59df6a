import { allRows } from '../src/agent-core/settings/settings.ts'
import { startRows } from '../src/agent-core/settings/start-rows.ts'
import { editableRow, formatSetting, type SettingName, settingNames, spellingOf } from '../src/contract/settings.ts'
import { countsTexts, type SettingRow, type SettingSection, settingSections } from '../src/contract/settings-table.ts'
import { table } from './markdown-table.ts'

/** Every setting of the agent, as one page with the sections of the window. */
export function settingsMarkdown(): string {
  return [
    '# Settings',
    '',
    'Made by `node tasks/docs.ts` from the table of settings. A flag wins over what a person set, and that over the default;',
    '`metal-agent settings get` shows each value and where it comes from. Notes on flags that say the same: [cli.md](cli.md).',
    '',
    '- A setting with a name in the first column can be changed while the agent runs: in the window, or by `metal-agent settings set SETTING VALUE`;',
    '  `default` as the value gives it back, but of `namespace` is the namespace of that name, and `""` is all. It is kept in `settings.json` of the state folder. Who may set it: _page_ is also a page in a browser',
    '  (`metal-agent ui`), _shell_ only who has a shell or the app on this machine.',
    '- One without counts only from the start: by its flag, or, where the app hosts the agent, by a line of `start-settings.json`. The window shows',
    '  its value, where that comes from, and the line that states another.',
    '- The sections are the pages of the window; what it folds away under _Advanced_ comes last in each.',
    '- A value in `settings.json` that this build does not take is named in the log and among the notices, does not count, and costs no other;',
    '  what another build wrote stays in the file.',
    '',
    ...settingSections.flatMap((section) => [
      `## ${section}`,
      '',
      ...table(['setting', 'flag', 'default', 'must be', 'what it is', 'a change', 'who'], cellsOf(section)),
    ]),
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

/** Those that the window folds away come last, and of the others those of the start. */
function cellsOf(section: SettingSection): string[][] {
  const rows = [
    ...settingNames.map((name) => ({ row: editableRow(name), cells: editableCells(name) })),
    ...Object.values<SettingRow>(startRows).map((row) => ({ row, cells: ['', ...startCells(row), fromStart, ''] })),
  ].filter(({ row }) => row.section === section)
  const isAdvanced = ({ row }: (typeof rows)[number]) => row.prominence === 'advanced'
  return [...rows.filter((one) => !isAdvanced(one)), ...rows.filter(isAdvanced)].map(({ cells }) => cells)
}

const fromStart = 'counts only from the start'

function editableCells(name: SettingName): string[] {
  const row = editableRow(name)
  return [`\`${spellingOf(name)}\``, ...startCells(row), countsTexts[row.counts], row.trust]
}

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
