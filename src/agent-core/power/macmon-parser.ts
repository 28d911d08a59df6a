import { z } from 'zod'
import { parseJson } from '../util/files.ts'
import type { PowerSample, SampleReader } from './power-source.ts'
import { WholeLines } from './whole-lines.ts'

const watts = z.number().nonnegative()
/** A figure that is no number, as macmon prints NaN, is not known; one bad figure takes no other with it. */
const part = watts.optional().catch(undefined)

/** What `macmon pipe` prints of power, in watts, in every version since it has `pipe` (0.4.0). */
const printed = z.object({
  all_power: watts,
  cpu_power: part,
  gpu_power: part,
  ane_power: part,
  /** 0 where its sensor cannot be read. */
  sys_power: part,
})

/** Reads what `macmon pipe` prints: a sample is one line of JSON. A line that is none is left out. */
export class MacmonParser implements SampleReader {
  readonly #lines = new WholeLines()

  push(text: string): PowerSample[] {
    return this.#lines.push(text).flatMap((line) => {
      const { data } = printed.safeParse(parseJson(line))
      if (!data) return []
      const { all_power: combined, cpu_power: cpu, gpu_power: gpu, ane_power: ane, sys_power: system } = data
      return [
        {
          combined: milliwatts(combined),
          cpu: known(cpu),
          gpu: known(gpu),
          ane: known(ane),
          system: system === 0 ? undefined : known(system),
        },
      ]
    })
  }
}

const milliwatts = (value: number): number => Math.round(value * 1_000)
const known = (value: number | undefined): number | undefined => (value === undefined ? undefined : milliwatts(value))
