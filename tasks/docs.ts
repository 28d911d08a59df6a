import type { Command, Option } from 'commander'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import prettier from 'prettier'
import { defaultModelStore } from '../src/agent-core/models/default-store.ts'
import { labelNames, type MetricRow, metricTable } from '../src/agent-core/observability/metric-table.ts'
import { startRows } from '../src/agent-core/settings/start-rows.ts'
import { defaultStateDir } from '../src/agent-core/state/state-folder.ts'
import { exitCodeTexts, flagTable, flagUsage } from '../src/cli/flags.ts'
import { verbProgram } from '../src/cli/verbs.ts'
import {
  boundsText,
  defaultText,
  editableRow,
  settingNames,
  settingText,
  spellingOf,
} from '../src/contract/settings.ts'
import {
  countsTexts,
  type EditableRow,
  type SettingRow,
  type SettingSection,
  settingSections,
} from '../src/contract/settings-table.ts'
import { goAgentFlags, written } from '../src/installation/migration/go-agent.ts'

/** Lists that stand in pages between `<!-- begin NAME -->` and `<!-- end NAME -->`, made of the source; defaults are those of a Mac. */
const lists: Readonly<Record<string, () => string[]>> = {
  'exit codes': () => exitCodeTexts.map(([code, meaning]) => `- ${code}: ${meaning}`),
  verbs: () => verbs().flatMap(verbLines),
  settings: () => settingSections.flatMap((section) => [`## ${section}`, '', ...settingLines(section), '']),
  'go flags': goFlagLines,
  'go metrics': () => metricLines('go'),
  'our metrics': () => metricLines('ours'),
}

const home = '~'
const defaults = {
  modelStore: defaultModelStore('darwin', {}, home),
  stateDir: defaultStateDir('darwin', {}, home),
}

function verbs(): Command[] {
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
  return program.commands.flatMap((verb) => (verb.commands.length > 0 ? verb.commands : [verb]))
}

/** Said once at the top of the page. */
const ofMostVerbs = ['--json', '--state-dir']
const ofService = ['name of the service, or namespace/name', 'namespace of the service, if its name is ambiguous']
/** What names every setting is no help beside the page of them. */
const longestText = 300

function verbLines(verb: Command): string[] {
  const parent = verb.parent?.name() === 'metal-agent' ? '' : `${verb.parent?.name() ?? ''} `
  const words = verb.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`))
  const args = verb.registeredArguments.filter(({ description }) => !ofService.includes(description))
  const options = verb.options.filter(
    ({ long, description }) => !ofMostVerbs.includes(long ?? '') && !ofService.includes(description),
  )
  const brief = (text: string) => (text.length > longestText ? 'one of [settings.md](settings.md)' : text)
  const description = verb.description()
  return [
    `### \`${['metal-agent', `${parent}${verb.name()}`, ...words].join(' ')}\``,
    '',
    `${description.charAt(0).toUpperCase()}${description.slice(1)}.`,
    '',
    ...args.map((one) => `- \`${one.name()}\`: ${brief(one.description)}`),
    ...options.map((option) => `- \`${option.flags}\`: ${option.description}${defaultOf(option)}`),
    '',
  ]
}

const defaultOf = ({ defaultValue }: Option): string =>
  defaultValue === undefined ? '' : ` (default ${String(defaultValue)})`

/** Settings that the window folds away come last, and of the others those of the start; then flags that are no setting. */
function settingLines(section: SettingSection): string[] {
  const rows = [
    ...settingNames.map((name) => ({
      row: editableRow(name),
      name: spellingOf(name),
      counts: countsOf(editableRow(name)),
    })),
    ...Object.values<SettingRow>(startRows).map((row) => ({ row, name: row.flag, counts: 'only at the start' })),
  ].filter(({ row }) => row.section === section)
  const known = new Set(rows.map(({ row }) => row.flag))
  const flags = Object.entries(flagTable(defaults)).filter(
    ([name, flag]) => flag.section === section && !known.has(name),
  )
  return [...rows.map(settingLine), ...flags.map(([name, flag]) => `- \`${flagUsage(name, flag)}\`: ${flag.help}`)]
}

function settingLine({ row, name, counts }: { row: SettingRow; name: string; counts: string }): string {
  const spelled = name === row.flag ? '' : ` (setting \`${name}\`)`
  const fallback = defaultText(row)
  const bounds = row.choices === undefined ? (row.kind === 'switch' ? 'on or off' : boundsText(row)) : ''
  const facts = [bounds, fallback === undefined ? '' : `default: ${fallback}`, counts]
  return `- \`--${row.flag}\`${spelled}: ${settingText(row)} _${facts.filter((one) => one !== '').join('; ')}_`
}

const countsOf = ({ counts, trust }: EditableRow): string =>
  [
    ...(counts === 'now' ? [] : [countsTexts[counts].replace('takes effect ', '')]),
    ...(trust === 'page' ? ['page'] : []),
  ].join('; ')

/** Flags of LLMKube's Go agent that are not the same here in name, default and effect. */
function goFlagLines(): string[] {
  const ours = flagTable({ ...defaults, stateDir: '' })
  return Object.entries(goAgentFlags).flatMap(([name, flag]) => {
    if (flag.kept === false) return [`- \`--${name}\`: left out by \`migrate\`: ${flag.why}`]
    const own = ours[name]
    const value = own === undefined || own.aliasOf !== undefined ? flag.default : own.default
    if (value === flag.default) return []
    const [there, here] = [written(name, flag.default), written(name, value)]
    return [
      `- \`--${name}\`: default ${there === '' ? 'none' : `\`${there}\``} there, ${here === '' ? 'none' : `\`${here}\``} here`,
    ]
  })
}

const metricLines = (origin: string): string[] =>
  Object.entries<MetricRow>(metricTable)
    .filter(([, row]) => row.origin === origin)
    .map(([name, row]) => `- \`${name}\` (${[row.type, ...labelsOf(row)].join('; ')}): ${row.help}`)

function labelsOf(row: MetricRow): string[] {
  const labels = labelNames(row).map((label) => {
    const values = row.labels?.[label]
    return values ? `\`${label}\`: ${values.map((value) => `\`${value}\``).join(', ')}` : `\`${label}\``
  })
  const ofService = ['`name`', '`namespace`']
  return ofService.every((label) => labels.includes(label))
    ? ['per service', ...labels.filter((label) => !ofService.includes(label))]
    : labels
}

const folder = path.join(import.meta.dirname, '../docs')

/** @returns each page of docs/ that has such lists, as it is and as it should be. */
export async function generatedPages(): Promise<{ file: string; text: string; wanted: string }[]> {
  const pages: { file: string; text: string; wanted: string }[] = []
  for (const name of globSync('*.md', { cwd: folder })) {
    const file = path.join(folder, name)
    const text = readFileSync(file, 'utf8')
    const filled = text.replaceAll(
      /(<!-- begin (.+?) -->\n)[^]*?(<!-- end \2 -->)/g,
      (_, begin: string, list: string, end: string) => `${begin}\n${(lists[list]?.() ?? []).join('\n')}\n\n${end}`,
    )
    if (filled === text && !text.includes('<!-- begin ')) continue
    const options = await prettier.resolveConfig(file)
    pages.push({ file, text, wanted: await prettier.format(filled, { ...options, filepath: file }) })
  }
  return pages
}

if (import.meta.main) for (const { file, wanted } of await generatedPages()) writeFileSync(file, wanted)
