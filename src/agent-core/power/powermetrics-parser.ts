import type { PowerSample, SampleReader } from './power-source.ts'
import { WholeLines } from './whole-lines.ts'

type Label = Exclude<keyof PowerSample, 'system'>

const boundary = '*** Sampled system activity'
const labels: Readonly<Record<string, Label>> = { Combined: 'combined', CPU: 'cpu', GPU: 'gpu', ANE: 'ane' }
/** Only "Combined Power" is followed by what it adds up, such as "(CPU + GPU + ANE)". */
const valueLine = /^(?:(CPU|GPU|ANE) Power|(Combined) Power[^:]{0,100}): (\d{1,9}) mW$/

/**
 * Reads what powermetrics prints. A sample counts once the next one begins, since only then is it known to be whole, and only with a
 * combined figure. The GPU is named twice in a sample; the first one counts, as CPU and combined were read with it.
 */
export class PowermetricsParser implements SampleReader {
  readonly #lines = new WholeLines()
  #sample: Partial<Record<Label, number>> | undefined

  push(text: string): PowerSample[] {
    return this.#lines.push(text).flatMap((line) => this.#read(line))
  }

  #read(line: string): PowerSample[] {
    if (line.startsWith(boundary)) {
      const { combined, ...parts } = this.#sample ?? {}
      this.#sample = {}
      return combined === undefined ? [] : [{ combined, ...parts }]
    }
    const match = valueLine.exec(line)
    const label = labels[match?.[1] ?? match?.[2] ?? '']
    if (this.#sample && label !== undefined) this.#sample[label] ??= Number(match?.[3])
    return []
  }
}
