import type { PowermetricsEnd } from './powermetrics-run.ts'

const install = 'run `metal-agent power install` once in a terminal'

/** What sudo says in the C locale, and what a person can do about it. */
const refusals: readonly (readonly [pattern: RegExp, sentence: string])[] = [
  [
    /a password is required|a terminal is required/i,
    `sudo asks for a password before it runs powermetrics: ${install}.`,
  ],
  [
    /is not allowed to (?:execute|run)|not in the sudoers file|may not run sudo/i,
    `sudo does not let this user run powermetrics: have an administrator ${install}, with --user and the name of this user.`,
  ],
  [
    /command not found|no such file/i,
    'sudo finds no /usr/bin/powermetrics, which comes with macOS: power cannot be measured on this machine.',
  ],
  [
    /syntax error|parse error|no valid sudoers/i,
    'sudo cannot read its rules: run `sudo visudo -c` in a terminal, which names the line.',
  ],
]

const longestQuote = 200

/** One sentence: why no power is measured any more, and what to do. */
export function whyEnded(end: PowermetricsEnd): string {
  switch (end.kind) {
    case 'asked':
      return 'Power is not measured any more.'
    case 'notStarted':
      return `sudo cannot be started: ${end.message}.`
    case 'stalled':
      return end.hasPrinted
        ? `powermetrics printed no power for ${end.silentMs / 1_000} s, so it was ended: run \`metal-agent power status\`.`
        : `sudo or powermetrics printed nothing for ${end.silentMs / 1_000} s, so it was ended: run \`metal-agent power status\`.`
    case 'exited': {
      const known = refusals.find(([pattern]) => pattern.test(end.stderr))
      if (known) return known[1]
      const [line = ''] = end.stderr.trim().split('\n')
      const how = end.signal === null ? `exit code ${end.code ?? 0}` : end.signal
      return `powermetrics ended (${how})${line === '' ? '' : `: ${line.slice(0, longestQuote)}`}.`
    }
  }
}

/** Where powermetrics hangs that only root may end. */
export const stuck =
  'An earlier powermetrics has not ended, and only root may end it: run `sudo killall -9 powermetrics` in a terminal. No other is started before.'
