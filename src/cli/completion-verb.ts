import { Argument, Command } from 'commander'
import type { VerbContext } from './agent-session.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** What the name of a service is called among the arguments of a verb. */
const namesService = 'service'

export function completionVerb(program: Command, { io, end }: VerbContext): Command {
  return new Command('completion')
    .description('print a script that completes verbs and services in a shell')
    .addArgument(new Argument('<shell>', 'for which shell').choices(shells))
    .action((shell: Shell) => {
      io.stdout.write(scripts[shell](wordsOf(program)))
      end(0)
    })
}

interface Words {
  /** Each verb with the words that may follow it. */
  readonly verbs: readonly { readonly name: string; readonly does: string; readonly follows: readonly string[] }[]
  readonly services: readonly string[]
}

function wordsOf(program: Command): Words {
  const verbs = program.commands.map((verb) => ({
    name: verb.name(),
    does: verb.description(),
    follows: verb.commands.map((one) => one.name()),
  }))
  const services = program.commands
    .filter((verb) => verb.registeredArguments.some((one) => one.name() === namesService))
    .map((verb) => verb.name())
  return { verbs, services }
}

/** Names of services as the running agent knows them, one a line; nothing where none runs. */
const serviceNames = `metal-agent names 2>/dev/null`

const scripts: Readonly<Record<Shell, (words: Words) => string>> = {
  // A name is read as a line and never expanded, as `compgen -W` would; for the bash of macOS, 3.2, which has no mapfile.
  bash: ({ verbs, services }) => `_metal_agent() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words='' line
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words='${verbs.map(({ name }) => name).join('\n')}'
  elif [ "$COMP_CWORD" -eq 2 ]; then
    case "\${COMP_WORDS[1]}" in
      ${services.join('|')}) words="$(${serviceNames})" ;;
${verbs
  .filter(({ follows }) => follows.length > 0)
  .map(({ name, follows }) => `      ${name}) words='${follows.join('\n')}' ;;\n`)
  .join('')}    esac
  fi
  while IFS= read -r line; do
    case "$line" in
      '' | *[!-a-z0-9./]*) ;;
      "$word"*) COMPREPLY+=("$line") ;;
    esac
  done <<< "$words"
}
complete -F _metal_agent metal-agent
`,
  zsh: ({ verbs, services }) => `#compdef metal-agent
_metal_agent() {
  if (( CURRENT == 2 )); then
    local -a verbs=(${verbs.map(({ name, does }) => `'${name}:${does.replaceAll("'", "'\\''").replaceAll(':', '\\:')}'`).join(' ')})
    _describe verb verbs
    return
  fi
  (( CURRENT == 3 )) || return
  case $words[2] in
    ${services.join('|')}) compadd -- \${(f)"$(${serviceNames})"} ;;
${verbs
  .filter(({ follows }) => follows.length > 0)
  .map(({ name, follows }) => `    ${name}) compadd -- ${follows.join(' ')} ;;\n`)
  .join('')}  esac
}
compdef _metal_agent metal-agent
`,
  fish: ({ verbs, services }) =>
    [
      'complete -c metal-agent -f',
      ...verbs.map(
        ({ name, does }) =>
          `complete -c metal-agent -n __fish_use_subcommand -a ${name} -d '${does.replaceAll("'", "\\'")}'`,
      ),
      `complete -c metal-agent -n '__fish_seen_subcommand_from ${services.join(' ')}' -a '(${serviceNames})'`,
      ...verbs
        .filter(({ follows }) => follows.length > 0)
        .map(
          ({ name, follows }) =>
            `complete -c metal-agent -n '__fish_seen_subcommand_from ${name}' -a '${follows.join(' ')}'`,
        ),
      '',
    ].join('\n'),
}
