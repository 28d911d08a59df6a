import type { PowerIntervalMs } from './intervals.ts'

/** Milliwatts of one sample, as printed; what is missing or is no number of at least 0 is absent. */
export interface PowerSample {
  readonly combined: number
  readonly cpu?: number | undefined
  readonly gpu?: number | undefined
  readonly ane?: number | undefined
  /** What the whole machine takes, by a sensor of its own: no part draws more. */
  readonly system?: number | undefined
}

/** Reads what a source prints, piece by piece. */
export interface SampleReader {
  /** The samples that this piece completes. */
  push(text: string): PowerSample[]
}

export interface PowerCommand {
  /** An absolute path. */
  readonly file: string
  readonly args: readonly string[]
}

export type ProgramEnd =
  | { readonly kind: 'asked' }
  | { readonly kind: 'notStarted'; readonly message: string }
  | { readonly kind: 'stalled'; readonly silentMs: number; readonly hasPrinted: boolean }
  | {
      readonly kind: 'exited'
      readonly code: number | null
      readonly signal: NodeJS.Signals | null
      readonly stderr: string
    }

/** A program that goes on printing what this machine draws. No promise of it rejects. */
export interface PowerSource {
  /** As people read it; there is one program of each name at a time. */
  readonly name: string
  /** How many intervals the first figures take. */
  readonly firstAfter: number
  /** Asked for at each start, so that what is installed meanwhile counts; otherwise one sentence why it cannot be started. */
  command(intervalMs: PowerIntervalMs): Promise<PowerCommand | string>
  reader(): SampleReader
  /** One sentence: why no power is measured any more, and what to do. */
  whyEnded(end: ProgramEnd): Promise<string>
  /** One sentence: a program hangs that the agent cannot end, and what to do. */
  readonly stuck: string
}
