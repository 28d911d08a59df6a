import path from 'node:path'
import { z } from 'zod'
import { mapRows, type SettingKind, type SettingRow } from '../contract/settings-table.ts'
import { agentSettings, allRows, type AgentSettingName, type AgentSettings } from '../agent-core/settings/settings.ts'
import { flagKinds, flagTable, type Flag, type FlagDefaults } from './flags.ts'
import {
  emptyValues,
  FlagError,
  nearest,
  parseGoFlags,
  type FlagValue,
  type ParsedFlags,
} from '../agent-core/util/go-flags.ts'

export type RunRequest =
  { readonly kind: 'help'; readonly about?: string | undefined } | { readonly kind: 'version' } | RunWithSettings
interface RunWithSettings {
  readonly kind: 'run'
  readonly settings: AgentSettings
}

/** What the agent's own command line asks for; throws {@link FlagError}. Relative paths are taken from `cwd`. */
export function parseRunArguments(args: readonly string[], defaults: FlagDefaults, cwd: string): RunRequest {
  const table = flagTable(defaults)
  const parsed = parseGoFlags(table, args)
  if (parsed.help) return { kind: 'help', about: parsed.rest[0] }
  if (parsed.values.get('version') === true) return { kind: 'version' }
  const [stray] = parsed.rest
  if (stray !== undefined) throw strayWord(stray, args)
  return { kind: 'run', settings: settingsFrom(parsed, table, cwd) }
}

type FlagTable = Readonly<Record<string, Flag>>

function settingsFrom(parsed: ParsedFlags, table: FlagTable, cwd: string): AgentSettings {
  const { given, values } = parsed
  const allNamespaces = values.get('all-namespaces') === true
  if (allNamespaces && given.has('namespace') && values.get('namespace') !== '') {
    throw new FlagError('--namespace and --all-namespaces contradict each other: give one of them.')
  }
  const isDirect = values.get('legacy-direct-endpoints') === true
  if (isDirect && given.has('publish') && values.get('publish') !== 'direct') {
    throw new FlagError('--publish and --legacy-direct-endpoints contradict each other: give one of them.')
  }
  const stated = mapRows(allRows, (row: SettingRow) => {
    const isStated = given.has(row.flag) || row.required === true || row.startsAs !== undefined
    return isStated ? settingValue(row, values.get(row.flag) ?? '', cwd) : undefined
  })
  const onlyPort = Math.max(0, Number(values.get('llama-server-port')))
  if (onlyPort > 65_535) {
    throw new FlagError(`--llama-server-port must be a port number from 0 to 65535, not ${onlyPort}.`)
  }
  if (onlyPort > 0 && stated.portRange !== undefined) {
    throw new FlagError('--llama-server-port and --port-range contradict each other: give one of them.')
  }
  // Only where it is stated: a port that people chose long ago for something else is no reason not to start.
  if (given.has('ingress-port') && [stated.port, stated.clientPort].includes(stated.ingressPort)) {
    throw new FlagError('--ingress-port must be another port than --port and --client-port.')
  }
  const result = agentSettings.safeParse({
    ...stated,
    ...(allNamespaces && { namespace: undefined }),
    ...(isDirect && { publish: 'direct' }),
    ...(onlyPort > 0 && { portRange: { from: onlyPort, to: onlyPort } }),
    givenByFlags: givenByFlags(given, table),
    flagsNotInEffect: notInEffect(parsed, table),
  })
  if (result.success) return result.data
  throw settingError(result.error, values)
}

/** An empty value of a setting that may have none stands for none. */
function settingValue(row: SettingRow, given: FlagValue, cwd: string): unknown {
  const mayBeNone = row.default === undefined && row.required === undefined
  if (mayBeNone && given === emptyValues[flagKinds[row.kind]]) return undefined
  if (typeof given === 'boolean') return given
  if (row.flagTakes?.read) return row.flagTakes.read(given)
  return typeof given === 'string' ? fromText(row.kind, given, cwd) : given
}

function fromText(kind: SettingKind, text: string, cwd: string): unknown {
  switch (kind) {
    case 'path':
      return text === '' ? '' : path.resolve(cwd, text)
    case 'executable':
      return text.includes('/') ? path.resolve(cwd, text) : text
    case 'portRange':
      return parsePortRange(text)
    case 'list':
      return text
        .split(',')
        .map((item) => item.trim())
        .filter((item) => item !== '')
    default:
      return text
  }
}

function parsePortRange(text: string): { from: number; to: number } {
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(text)
  return { from: Number(match?.[1] ?? 0), to: Number(match?.[2] ?? 0) }
}

function givenByFlags(given: ReadonlySet<string>, table: FlagTable): AgentSettingName[] {
  const stated = new Set([...given].map((flag) => table[flag]?.setting))
  return [...stated].filter((name) => name !== undefined)
}

/** A switch turned off or a value of 0 asks for nothing, so there is nothing to warn about. */
function notInEffect({ given, values }: ParsedFlags, table: FlagTable): { flag: string; reason: string }[] {
  return [...given].flatMap((flag) => {
    const reason = table[flag]?.notInEffect
    const value = values.get(flag)
    return reason === undefined || value === false || value === 0 ? [] : [{ flag, reason }]
  })
}

function settingError(error: z.ZodError, values: ParsedFlags['values']): FlagError {
  const [issue] = error.issues
  const row: SettingRow | undefined = Object.entries<SettingRow>(allRows).find(([name]) => name === issue?.path[0])?.[1]
  const value = values.get(row?.flag ?? '')
  const hint = row?.schema instanceof z.ZodEnum ? nearest(String(value), row.schema.options.map(String)) : undefined
  const instead = value === '' ? '' : `, not ${JSON.stringify(value)}`
  const problem = `--${row?.flag ?? ''} ${issue?.message ?? 'cannot be used'}${instead}`
  return new FlagError(hint === undefined ? `${problem}.` : `${problem}: did you mean ${hint}?`)
}

/** The Go agent ignores everything after such a word, flags included; that is how a switch is set by mistake. */
function strayWord(word: string, args: readonly string[]): FlagError {
  const before = args[args.indexOf(word) - 1]
  const advice =
    /^(true|false)$/i.test(word) && before?.startsWith('-')
      ? `write ${before}=${word}`
      : 'the agent takes flags only, and metal-agent --help lists them'
  return new FlagError(`${JSON.stringify(word)} is not a flag: ${advice}.`)
}
