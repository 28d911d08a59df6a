export interface PowerSupply {
  readonly source: 'mains' | 'battery'
  /** Charge of the battery, from 0 to 1; absent without one. */
  readonly charge?: number
  readonly lowPowerMode: boolean
  /** Without use until the system goes to sleep by itself, 0 = never; absent where the system does not say. */
  readonly sleepAfterMinutes?: number
}

/** A program that keeps the system from going to sleep by itself for as long as it runs. */
export interface AwakeProgram {
  readonly command: string
  /** It ends by itself when this process does, or when its input ends. */
  readonly args: readonly string[]
}
