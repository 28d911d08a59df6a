import { flagTable } from '../src/cli/flags.ts'
import { goAgentFlags, written, type GoAgentFlag } from '../src/installation/migration/go-agent.ts'
import { table } from './markdown-table.ts'

const ours = flagTable({ modelStore: '~/Library/Application Support/Metalbar/models', stateDir: '' })

/** What becomes of each flag of LLMKube's Go agent, as one page. */
export const llmkubeFlagsMarkdown = (): string =>
  [
    "# The Go agent's flags",
    '',
    "Every flag of LLMKube's Go agent and what becomes of it, made by `node tasks/docs.ts` from the source. All flags of this agent: [cli.md](cli.md).",
    "The Go agent's metrics keep their names, types and labels: [metrics.md](metrics.md#the-go-agents).",
    '',
    ...flags(),
  ].join('\n')

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
