export interface BackOff {
  readonly firstMs: number
  readonly maxMs: number
}

/** The longest wait after so many failures in a row: doubles from the first on. */
export const backOffCeilingMs = ({ firstMs, maxMs }: BackOff, failures: number): number =>
  failures === 0 ? 0 : Math.min(maxMs, firstMs * 2 ** (failures - 1))

/** Milliseconds to wait, with full jitter, so that what failed together does not come back together. `random` gives [0, 1). */
export const jitteredMs = (backOff: BackOff, failures: number, random: () => number): number =>
  Math.round(random() * backOffCeilingMs(backOff, failures))
