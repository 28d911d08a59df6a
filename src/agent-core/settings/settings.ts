import { z } from 'zod'
import { unsafeFlag } from '../runtimes/argument-policy.ts'
import { notInStartFile, startRows, type StartSettingName, startSettingNames } from './start-rows.ts'
import { sentence } from '../../contract/clean-text.ts'
import { editableRows, mapRows, type SettingKind, type SettingRow } from '../../contract/settings-table.ts'
import {
  formatSetting,
  maxShownBytes,
  settingNames,
  type SettingOrigin,
  type StartSettingView,
} from '../../contract/settings.ts'
import { shellWord } from '../../contract/shell.ts'

/** Every setting of the agent. */
export const allRows = { ...editableRows, ...startRows }
export type AgentSettingName = keyof typeof allRows

const settingName = z.enum([...settingNames, ...startSettingNames])

/** What a flag takes is accepted, since an agent is started with it. */
type Accepted<Row extends Pick<SettingRow, 'schema'>> = Row extends { flagTakes: { schema: infer Schema } }
  ? Schema
  : Row['schema']
type Field<Row extends SettingRow> = Row extends { default: unknown }
  ? z.ZodDefault<z.ZodType<z.output<Accepted<Row>>>>
  : Row extends { required: true }
    ? z.ZodType<z.output<Accepted<Row>>>
    : z.ZodOptional<z.ZodType<z.output<Accepted<Row>>>>
type Shape = { readonly [Name in AgentSettingName]: Field<(typeof allRows)[Name]> }

function fieldOf({ schema, default: fallback, flagTakes, required }: SettingRow): z.ZodType {
  const accepted = flagTakes?.schema ?? schema
  if (fallback !== undefined) return accepted.default(fallback)
  return required ? accepted : accepted.optional()
}

/** What an agent is given when it starts. Messages complete the sentence "<name of the setting> …". */
export const agentSettings = z.object({
  ...(mapRows(allRows, fieldOf) as Shape),
  /** Settings that flags state: what a person sets while the agent runs counts only for the others. */
  givenByFlags: z.array(settingName).default([]),
  /** The file that stands in place of flags where the app hosts the agent, and what it states. */
  startFile: z.object({ path: z.string(), states: z.array(settingName) }).optional(),
  /** Flags that were given and understood but change nothing, each with the reason. */
  flagsNotInEffect: z.array(z.object({ flag: z.string(), reason: z.string() })).default([]),
})
export type AgentSettings = z.infer<typeof agentSettings>
export type LogLevel = AgentSettings['logLevel']

/** True sentences a person should read when the agent starts, here and in its snapshot. */
export function startNotices(settings: AgentSettings): string[] {
  const { flagsNotInEffect, allowUnsafeExtraArgs, allowedEnv } = settings
  return [
    ...flagsNotInEffect.map(({ flag, reason }) => `--${flag} is not in effect: ${reason}.`),
    ...(allowUnsafeExtraArgs
      ? [
          `${unsafeFlag} is set: whoever may write an InferenceService can run programs, read and write files on this machine as this user.`,
        ]
      : []),
    ...(allowedEnv.length > 0
      ? [`--allowed-env is set: whoever may write an InferenceService sets ${allowedEnv.join(', ')} for its server.`]
      : []),
  ]
}

/** Where the effective value comes from. */
export function originOf(
  name: AgentSettingName,
  { givenByFlags, startFile }: AgentSettings,
  isPersons: boolean,
): SettingOrigin {
  if (givenByFlags.includes(name)) return 'flag'
  if (isPersons) return 'person'
  return startFile?.states.includes(name) === true ? 'startFile' : 'default'
}

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
      section: row.section,
      title: row.title,
      help: row.help,
      ...(row.more !== undefined && { more: row.more }),
      ...(row.defaultMeans !== undefined && { none: row.defaultMeans }),
      value: shown(textOf(row.kind, value)),
      from: originOf(name, settings, stated === undefined && value !== undefined),
      flag: shown(`--${row.flag}=${shellWord(flagText(row.kind, example))}`),
      ...(!(name in notInStartFile) && { line: shown(`"${name}": ${JSON.stringify(example)}`) }),
    }
  })
}

type Value = AgentSettings[StartSettingName]

/** Example values of settings that may have none. */
const examples: { readonly [Name in StartSettingName]?: AgentSettings[Name] } = {
  context: 'NAME',
  runtime: 'llama-server',
  runtimes: ['llama-server', 'mlx-lm'],
  inferenceServiceAllowlist: ['NAME'],
  allowedModelRoots: ['~/models'],
  allowedDownloadHosts: ['nas.lan'],
  clientHosts: ['host.docker.internal'],
  hubLoginNamespaces: ['default'],
  allowedEnv: ['MY_VARIABLE'],
  portRange: { from: 30_000, to: 30_099 },
  hostIp: '192.168.1.20',
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
