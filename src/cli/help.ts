import { exitCodes } from './io.ts'
import { flagGroups, flagTable, type Flag, type FlagDefaults } from './flags.ts'
import { formatByteCount, formatDuration } from '../contract/format.ts'

const intro = `metal-agent serves the InferenceServices of a Kubernetes cluster natively on this host.

Usage:
  metal-agent [flags]        run the agent
  metal-agent <verb> …       talk to the agent that runs, in a terminal or in the app
`

const flagIntro = `
Flags take one dash or two, and a value after a space or "=" (a switch, and --ui, only after "="). A DURATION is such
as 10s, 2m or 1m30s, and BYTES are such as 512Ki, 20Mi or 1Gi.
`

export const exitCodeTexts: readonly (readonly [code: number, meaning: string])[] = [
  [exitCodes.done, 'done or begun'],
  [exitCodes.failed, 'failed'],
  [exitCodes.wrongUsage, 'wrong usage'],
  [exitCodes.noAgent, 'no agent is running'],
  [exitCodes.refused, 'refused by the agent or the cluster'],
  [exitCodes.notAvailable, 'not built yet'],
  [exitCodes.doesNotFit, 'the model does not fit on this machine, or not beside what runs'],
]

const outro = `
Exit codes: ${exitCodeTexts.map(([code, meaning]) => `${code} ${meaning}`).join(', ')}.
`

/** `verbs`: how each is used, and what it does. */
export function helpText(defaults: FlagDefaults, verbs: readonly (readonly [usage: string, does: string])[]): string {
  const flags = Object.entries(flagTable(defaults))
  const width = Math.max(...flags.map(([name, flag]) => flagUsage(name, flag).length))
  const groups = flagGroups.map((group) => {
    const lines = flags
      .filter(([, flag]) => flag.group === group)
      .map(([name, flag]) => `  ${flagUsage(name, flag).padEnd(width)}  ${flag.help}${defaultText(flag)}`)
    return `\n${group}:\n${lines.join('\n')}\n`
  })
  const verbWidth = Math.max(0, ...verbs.map(([usage]) => usage.length))
  const verbLines = verbs.map(([usage, does]) => `  ${usage.padEnd(verbWidth)}  ${does}\n`)
  return `${intro}\nVerbs:\n${verbLines.join('')}${flagIntro}${groups.join('')}${outro}`
}

const placeholders = {
  ...{ string: ' TEXT', bool: '', int: ' N', float: ' X' },
  ...{ duration: ' DURATION', bytes: ' BYTES' },
} as const

export const flagUsage = (name: string, { kind, bare }: Flag) =>
  bare === undefined ? `--${name}${placeholders[kind]}` : `--${name}[=${placeholders[kind].trim()}]`

export function defaultText(flag: Flag): string {
  if (flag.aliasOf !== undefined) return ''
  if (flag.defaultMeans !== undefined) return ` (default: ${flag.defaultMeans})`
  if (flag.default === '' || flag.default === false) return ''
  return ` (default ${formatValue(flag)})`
}

function formatValue({ kind, default: value }: Flag): string {
  if (kind === 'duration') return formatDuration(Number(value))
  return kind === 'bytes' ? formatByteCount(Number(value)) : JSON.stringify(value)
}
