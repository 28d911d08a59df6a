import { metricPrefix, type MetricRow, metricTable } from '../src/agent-core/observability/metric-table.ts'
import { flagTable } from '../src/cli/flags.ts'
import { goAgentFlags, written, type GoAgentFlag } from '../src/installation/migration/go-agent.ts'
import { table } from './markdown-table.ts'

const ours = flagTable({ modelStore: '~/Library/Application Support/Metalbar/models', stateDir: '' })

/** The page with the parts of it that are made of the source. */
export const fromLlmkubeMarkdown = (page: string): string =>
  withPart(withPart(page, 'flags', flags()), 'metrics', metrics())

const flags = (): string[] =>
  table(
    ['flag of the Go agent', 'default there', 'here'],
    Object.entries(goAgentFlags).map(([name, flag]) => [`\`--${name}\``, shownDefault(name, flag), fateOf(name, flag)]),
  )

const shownDefault = (name: string, flag: GoAgentFlag): string =>
  flag.default === '' ? 'none' : `\`${written(name, flag.default)}\``

function fateOf(name: string, flag: GoAgentFlag): string {
  if (flag.kept === false) return `left out by \`migrate\`: ${flag.why}`
  const own = ours[name]
  const value = own === undefined || own.aliasOf !== undefined ? flag.default : own.default
  if (value === flag.default) return 'the same'
  const shown = written(name, value)
  return `the same flag; ${shown === '' ? 'no default' : `default \`${shown}\``}`
}

const metrics = (): string[] =>
  table(
    ['metric of the Go agent', 'here'],
    Object.entries<MetricRow>(metricTable).flatMap(([name, { origin, help }]) =>
      origin === 'go' ? [[`\`${metricPrefix}${name}\``, help]] : [],
    ),
  )

function withPart(page: string, name: string, lines: readonly string[]): string {
  const part = new RegExp(`(<!-- ${name}: .*? -->\\n)[^]*?(<!-- /${name} -->)`)
  if (!part.test(page)) throw new Error(`docs/from-llmkube.md has no place for the ${name}.`)
  return page.replace(part, (_, before: string, after: string) => `${before}\n${lines.join('\n')}\n${after}`)
}
