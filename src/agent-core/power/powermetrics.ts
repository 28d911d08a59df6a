import type { Executable } from '../util/find-executable.ts'
import {
  endedWords,
  lineReader,
  type PowerSample,
  type PowerSource,
  type ProgramEnd,
  type SampleReader,
} from './power-source.ts'

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
  reader: powermetricsReader,
  whyEnded: (end) => whyEnded(end, findMacmon),
  stuck:
    'An earlier powermetrics is still running, and only root may stop it: run `sudo killall -9 powermetrics` in a terminal. The agent starts no other until then.',
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
  if (end.kind === 'stalled') {
    const what = end.hasPrinted ? 'powermetrics printed no power' : 'sudo or powermetrics printed nothing'
    return `${what} for ${end.silentMs / 1_000} s, so the agent stopped it: run \`metal-agent power status\`.`
  }
  if (end.kind === 'notStarted') return endedWords('sudo', end)
  const known = end.kind === 'exited' && refusals.find(({ pattern }) => pattern.test(end.stderr))
  if (!known) return endedWords('powermetrics', end)
  return known.lacksRule && (await findMacmon()).kind === 'found'
    ? `${known.sentence} Or have macmon measure it, which needs no rule: \`metal-agent settings set power-source macmon\`.`
    : known.sentence
}

type Label = Exclude<keyof PowerSample, 'system'>

const boundary = '*** Sampled system activity'
const labels: Readonly<Record<string, Label>> = { Combined: 'combined', CPU: 'cpu', GPU: 'gpu', ANE: 'ane' }
/** Only "Combined Power" is followed by what it adds up, such as "(CPU + GPU + ANE)". */
const valueLine = /^(?:(CPU|GPU|ANE) Power|(Combined) Power[^:]{0,100}): (\d{1,9}) mW$/

/**
 * A sample counts once the next one begins, since only then is it known to be whole, and only with a combined figure. The GPU is named
 * twice in a sample; the first one counts, as CPU and combined were read with it.
 */
export function powermetricsReader(): SampleReader {
  let sample: Partial<Record<Label, number>> | undefined
  return lineReader((line) => {
    if (line.startsWith(boundary)) {
      const { combined, ...parts } = sample ?? {}
      sample = {}
      return combined === undefined ? [] : [{ combined, ...parts }]
    }
    const match = valueLine.exec(line)
    const label = labels[match?.[1] ?? match?.[2] ?? '']
    if (sample && label !== undefined) sample[label] ??= Number(match?.[3])
    return []
  })
}
