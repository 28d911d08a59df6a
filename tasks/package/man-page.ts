import { cliReference, type Entry } from '../cli-reference.ts'

/** `metal-agent.1`: what docs/cli.md has, for `man metal-agent`. */
export function manPage(version: string, platform: 'darwin' | 'linux'): string {
  const { exitCodes, verbs, flagSections } = cliReference(platform)
  return [
    `.TH METAL\\-AGENT 1 "" "metal\\-agent ${escaped(version)}" "User Commands"`,
    ...section('NAME', 'metal\\-agent \\- makes a machine a Kubernetes inference node'),
    ...section('SYNOPSIS', '.B metal\\-agent', '[FLAGS]', '.br', '.B metal\\-agent', 'VERB [OPTIONS]'),
    ...section(
      'DESCRIPTION',
      'Without a verb it runs the agent. A verb talks to the agent that runs on the same state folder, headless or in the app.',
    ),
    ...section('VERBS', ...verbs.flatMap(verbLines)),
    ...section(
      'FLAGS',
      'Flags take one dash or two, and a value after a space or = (a switch only after =).',
      ...flagSections.flatMap(({ section, entries }) => [`.SS ${escaped(section)}`, ...entries.flatMap(entryLines)]),
    ),
    ...section('EXIT STATUS', ...exitCodes.flatMap(entryLines)),
    '',
  ].join('\n')
}

const section = (title: string, ...lines: readonly string[]): string[] => [`.SH ${title}`, ...lines]

const verbLines = ({ usage, text, entries }: ReturnType<typeof cliReference>['verbs'][number]): string[] => [
  ...[`.SS ${escaped(usage)}`, escaped(text)],
  ...entries.flatMap(entryLines),
]

const entryLines = ([word, text]: Entry): string[] => ['.TP', `.B ${escaped(word)}`, escaped(text)]

/** Nothing of it is a request or an escape of roff, and a dash stays one that can be copied. */
const escaped = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^(?=[.'])/, '\\&')
    .replaceAll('\n', ' ')
