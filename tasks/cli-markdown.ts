import { cliReference, type Entry } from './cli-reference.ts'
import { table } from './markdown-table.ts'

/** What `--help` says of every flag and verb, as one page. Defaults are those of macOS. */
export function cliMarkdown(): string {
  const { exitCodes, verbs, flagSections } = cliReference('darwin')
  return [
    '# The command `metal-agent`',
    '',
    '`metal-agent [flags]` runs the agent; `metal-agent <verb>` talks to the one that runs on the same state folder, headless or in the',
    'app. This page is made by `node tasks/docs.ts` from what `metal-agent --help` prints.',
    '',
    '## Exit codes',
    '',
    ...table(['code', 'meaning'], exitCodes),
    '## Verbs',
    '',
    ...verbs.flatMap(({ usage, text, entries }) => [
      ...[`### \`${usage}\``, '', text, ''],
      ...(entries.length > 0 ? table(['', ''], entries.map(asCode)) : []),
    ]),
    '## Flags of the agent',
    '',
    'Flags take one dash or two, and a value after a space or `=` (a switch, and `--ui`, only after `=`). A DURATION is written as `10s`, `2m` or',
    '`1m30s`, and BYTES as `512Ki`, `20Mi` or `1Gi`.',
    '',
    ...flagSections.flatMap(({ section, entries }) => [
      ...[`### ${section}`, ''],
      ...table(['flag', 'what it does'], entries.map(asCode)),
    ]),
  ].join('\n')
}

const asCode = ([word, text]: Entry): Entry => [`\`${word}\``, text]
