/** Executables by absolute path, as a rule of sudoers names them. */
export interface PowerCommands {
  readonly sudo: string
  readonly powermetrics: string
}

export const macCommands: PowerCommands = { sudo: '/usr/bin/sudo', powermetrics: '/usr/bin/powermetrics' }

/** In milliseconds: one exact command line of the sudoers rule each. */
export const powerIntervalsMs = [500, 1_000, 2_000, 5_000, 10_000] as const
export type PowerIntervalMs = (typeof powerIntervalsMs)[number]

/** The same one, or the next longer; the longest for what is longer than that. */
export const nextIntervalMs = (wantedMs: number): PowerIntervalMs =>
  powerIntervalsMs.find((ms) => ms >= wantedMs) ?? 10_000

export const powermetricsArguments = (intervalMs: number): string[] => [
  ...['--samplers', 'cpu_power,gpu_power'],
  ...['-i', String(intervalMs)],
]
