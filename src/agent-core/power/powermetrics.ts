import type { Executable } from '../util/find-executable.ts'
import { endedWords, startWords } from './failure-words.ts'
import type { PowerSource, ProgramEnd } from './power-source.ts'
import { PowermetricsParser } from './powermetrics-parser.ts'

/** Executables by absolute path, as a rule of sudoers names them. */
export interface PowerCommands {
  readonly sudo: string
  readonly powermetrics: string
}

export const macCommands: PowerCommands = { sudo: '/usr/bin/sudo', powermetrics: '/usr/bin/powermetrics' }

export const powermetricsArguments = (intervalMs: number): string[] => [
  ...['--samplers', 'cpu_power,gpu_power'],
  ...['-i', String(intervalMs)],
]

/** powermetrics under sudo, which never asks for a password. */
export const powermetricsSource = (
  { sudo, powermetrics }: PowerCommands,
  findMacmon: () => Promise<Executable>,
): PowerSource => ({
  name: 'powermetrics',
  // A sample is known to be whole when the next one begins.
  firstAfter: 2,
  command: (intervalMs) =>
    Promise.resolve({ file: sudo, args: ['-n', powermetrics, ...powermetricsArguments(intervalMs)] }),
  reader: () => new PowermetricsParser(),
  whyEnded: (end) => whyEnded(end, findMacmon),
  stuck:
    'An earlier powermetrics has not ended, and only root may end it: run `sudo killall -9 powermetrics` in a terminal. No other is started before.',
})

const install = 'run `metal-agent power install` once in a terminal'

interface Refusal {
  readonly pattern: RegExp
  readonly sentence: string
  /** A rule of sudo is missing, which macmon does without. */
  readonly lacksRule?: true
}

/** What sudo says in the C locale, and what a person can do about it. */
const refusals: readonly Refusal[] = [
  {
    pattern: /a password is required|a terminal is required/i,
    sentence: `sudo asks for a password before it runs powermetrics: ${install}.`,
    lacksRule: true,
  },
  {
    pattern: /is not allowed to (?:execute|run)|not in the sudoers file|may not run sudo/i,
    sentence: `sudo does not let this user run powermetrics: have an administrator ${install}, with --user and the name of this user.`,
    lacksRule: true,
  },
  {
    pattern: /command not found|no such file/i,
    sentence: 'sudo finds no /usr/bin/powermetrics, which comes with macOS: power cannot be measured on this machine.',
  },
  {
    pattern: /syntax error|parse error|no valid sudoers/i,
    sentence: 'sudo cannot read its rules: run `sudo visudo -c` in a terminal, which names the line.',
  },
]

async function whyEnded(end: ProgramEnd, findMacmon: () => Promise<Executable>): Promise<string> {
  switch (end.kind) {
    case 'asked':
    case 'notStarted':
      return startWords('sudo', end)
    case 'stalled':
      return end.hasPrinted
        ? `powermetrics printed no power for ${end.silentMs / 1_000} s, so it was ended: run \`metal-agent power status\`.`
        : `sudo or powermetrics printed nothing for ${end.silentMs / 1_000} s, so it was ended: run \`metal-agent power status\`.`
    case 'exited': {
      const known = refusals.find(({ pattern }) => pattern.test(end.stderr))
      if (known?.lacksRule !== true) return known?.sentence ?? endedWords('powermetrics', end)
      const { kind } = await findMacmon()
      return kind === 'found'
        ? `${known.sentence} Or have macmon measure it, which needs no rule: \`metal-agent settings set power-source macmon\`.`
        : known.sentence
    }
  }
}
