import { sentence } from '../../contract/clean-text.ts'
import type { SettingKind, SettingRow } from '../../contract/settings-table.ts'
import {
  formatSetting,
  maxShownBytes,
  type StartSettingName,
  startSettingNames,
  type StartSettingView,
} from '../../contract/settings.ts'
import { shellWord } from '../../contract/shell.ts'
import { originOf } from './origin.ts'
import type { AgentSettings } from './settings.ts'
import { notInStartFile, startRows } from './start-rows.ts'

/** What a person may choose in another way while the agent runs, where nothing is stated at the start. */
type Chosen = Readonly<Partial<Record<StartSettingName, string | undefined>>>

/** Each as the agent runs with it, and how it would be stated. Paths and names only: none of these settings is a secret. */
export function startViews(settings: AgentSettings, chosen: Chosen): StartSettingView[] {
  return startSettingNames.map((name) => {
    const row: SettingRow = startRows[name]
    const stated = settings[name]
    const value = stated ?? chosen[name]
    const example = isNone(value) ? examples[name] : value
    return {
      name,
      group: row.group,
      value: shown(textOf(row.kind, value)),
      from: originOf(name, settings, stated === undefined && value !== undefined),
      flag: shown(`--${row.flag}=${shellWord(flagText(row.kind, example))}`),
      ...(!(name in notInStartFile) && { line: shown(`"${name}": ${JSON.stringify(example)}`) }),
    }
  })
}

type Value = AgentSettings[StartSettingName]

/** Of settings that need have no value. */
const examples: { readonly [Name in StartSettingName]?: AgentSettings[Name] } = {
  context: 'NAME',
  inferenceServiceAllowlist: ['NAME'],
  allowedModelRoots: ['~/models'],
  allowedDownloadHosts: ['nas.lan'],
  hubLoginNamespaces: ['default'],
  allowedEnv: ['MY_VARIABLE'],
  portRange: { from: 30_000, to: 30_099 },
  hostIp: '192.168.1.20',
  uiPort: 8_123,
  metricsAddress: '192.168.1.20:9091',
  metricsTokenFile: '/path/to/token',
  logFile: '/path/to/agent.log',
}

const shown = (text: string): string => sentence(text, maxShownBytes)

const isNone = (value: Value): boolean => value === undefined || (Array.isArray(value) && value.length === 0)

function textOf(kind: SettingKind, value: Value): string {
  if (value === undefined) return ''
  if (Array.isArray(value)) return value.join(', ')
  return typeof value === 'object' ? `${value.from}-${value.to}` : formatSetting(kind, value)
}

const flagText = (kind: SettingKind, value: Value): string =>
  Array.isArray(value) ? value.join(',') : typeof value === 'boolean' ? String(value) : textOf(kind, value)
