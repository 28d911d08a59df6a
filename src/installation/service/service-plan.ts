import { InstallationError } from '../installation-host.ts'
import type { ServiceKind } from './service-names.ts'

/** What a service runs and how; what launchd and systemd are told besides is the same for everybody. */
export interface ServicePlan {
  readonly kind: ServiceKind
  /** The command without the agent's flags; the first word is an absolute path. */
  readonly program: readonly string[]
  /** Flags of the agent by name, without dashes; those of {@link ownFlags} are always there. */
  readonly flags: ReadonlyMap<string, string>
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory: string
  /** For what the agent cannot write to its log, such as a flag that it does not understand. */
  readonly errorFile: string
  /** From SIGTERM to SIGKILL. */
  readonly exitTimeoutS: number
  /** Whose agent it is, where launchd has to be told. */
  readonly userName?: string
}

/** Stated in every service, so that another default of a later version moves nothing. The first tells where the flags begin. */
export const ownFlags = ['state-dir', 'model-store', 'log-file'] as const

/** A crash before the cluster answers is not repeated faster. */
export const restartDelayS = 10
/** A server has a file for each part of its model, and a connection for each request. */
export const openFiles = 65_536
export const ownerOnly = 0o077

/** Withdrawing, stopping and saying goodbye take no longer beside the drain. */
const shutdownMarginS = 35
/** A person may set a longer drain while the agent runs; the service is not written anew for it up to here. */
const leastDrainS = 300

export const exitTimeoutS = (drainLimitMs: number): number =>
  Math.max(leastDrainS, Math.ceil(drainLimitMs / 1000)) + shutdownMarginS

/** The whole command line. */
export const commandLine = ({ program, flags }: Pick<ServicePlan, 'program' | 'flags'>): string[] => [
  ...program,
  ...[...flags].map(([name, value]) => `--${name}=${value}`),
]

/** Undefined where this is no command line of ours. */
export function splitCommandLine(
  words: readonly string[],
): { readonly program: string[]; readonly flags: Map<string, string> } | undefined {
  const first = words.findIndex((word) => word.startsWith(`--${ownFlags[0]}=`))
  if (first < 1) return undefined
  const flags = new Map<string, string>()
  for (const word of words.slice(first)) {
    const [, name, value] = /^--([^=]+)=([^]*)$/.exec(word) ?? []
    if (name === undefined || value === undefined) return undefined
    flags.set(name, value)
  }
  return { program: words.slice(0, first), flags }
}

/** What neither format can carry in a path, or systemd runs no program with. Throws InstallationError. */
export function refuseUnusableTexts(plan: ServicePlan): void {
  const { kind, program, flags, environment, workingDirectory, errorFile } = plan
  const texts = [...program, ...flags.values(), ...Object.values(environment), workingDirectory, errorFile]
  // oxlint-disable-next-line no-control-regex -- it is what is looked for
  const found = texts.find((text) => /[\u0000-\u001f\u007f]/.test(text))
  const [executable = ''] = program
  if (kind === 'systemdUser' && /["'\\]/.test(executable)) {
    throw new InstallationError(
      `systemd runs no program with a quotation mark or a backslash in its path, as ${executable} has: choose another folder, such as by --state-dir.`,
    )
  }
  if (found === undefined) return
  throw new InstallationError(
    `${JSON.stringify(found)} has a line break or another control character in it, which no service can be given: choose another.`,
  )
}
