/** In milliseconds: one exact command line of the sudoers rule each. */
export const powerIntervalsMs = [500, 1_000, 2_000, 5_000, 10_000] as const
export type PowerIntervalMs = (typeof powerIntervalsMs)[number]

/** The same one, or the next longer; the longest for what is longer than that. */
export const nextIntervalMs = (wantedMs: number): PowerIntervalMs =>
  powerIntervalsMs.find((ms) => ms >= wantedMs) ?? 10_000
