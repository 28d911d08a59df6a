import { flagGroups, flagTable, type Flag, type FlagDefaults } from './flags.ts'
import { formatDuration } from './go-flags.ts'

const intro = `metal-agent serves the InferenceServices of a Kubernetes cluster natively on this host.

Usage:
  metal-agent [flags]        run the agent
  metal-agent status         show what a running agent does
  metal-agent ui             print the address of its window for a browser
  metal-agent version        print version, git commit and build date
  metal-agent help [verb]    print this, or the options of a verb

Flags take one dash or two, and a value after a space or "=" (a switch, and --ui, only after "=").
`

const outro = `
Exit codes: 0 done, 1 failed, 2 wrong usage; status and ui: 3 no agent is running.
`

export function helpText(defaults: FlagDefaults): string {
  const flags = Object.entries(flagTable(defaults))
  const width = Math.max(...flags.map(([name, flag]) => flagUsage(name, flag).length))
  const groups = flagGroups.map((group) => {
    const lines = flags
      .filter(([, flag]) => flag.group === group)
      .map(([name, flag]) => `  ${flagUsage(name, flag).padEnd(width)}  ${flag.help}${defaultText(flag)}`)
    return `\n${group}:\n${lines.join('\n')}\n`
  })
  return intro + groups.join('') + outro
}

const placeholders = { string: ' TEXT', bool: '', int: ' N', float: ' X', duration: ' 10s' } as const

const flagUsage = (name: string, { kind, bare }: Flag) =>
  bare === undefined ? `--${name}${placeholders[kind]}` : `--${name}[=${placeholders[kind].trim()}]`

function defaultText(flag: Flag): string {
  if (flag.aliasOf !== undefined) return ''
  if (flag.defaultMeans !== undefined) return ` (default: ${flag.defaultMeans})`
  if (flag.default === '' || flag.default === false) return ''
  return ` (default ${flag.kind === 'duration' ? formatDuration(Number(flag.default)) : JSON.stringify(flag.default)})`
}
