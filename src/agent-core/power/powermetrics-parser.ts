/** Milliwatts of one sample, as printed; what is missing or cannot be read as a whole number is absent. */
export interface PowerSample {
  readonly combined: number
  readonly cpu?: number
  readonly gpu?: number
  readonly ane?: number
}

type Label = keyof PowerSample

const boundary = '*** Sampled system activity'
const labels: Readonly<Record<string, Label>> = { Combined: 'combined', CPU: 'cpu', GPU: 'gpu', ANE: 'ane' }
/** Only "Combined Power" is followed by what it adds up, such as "(CPU + GPU + ANE)". */
const valueLine = /^(?:(CPU|GPU|ANE) Power|(Combined) Power[^:]{0,100}): (\d{1,9}) mW$/
/** Lines of frequencies are long, and none of them is read. */
const longestLine = 64 * 1024

/**
 * Reads what powermetrics prints, piece by piece. A sample counts once the next one begins, since only then is it known to be whole, and
 * only with a combined figure. The GPU is named twice in a sample; the first one counts, as CPU and combined were read with it.
 */
export class PowermetricsParser {
  #pending = ''
  #isTooLong = false
  #sample: Partial<Record<Label, number>> | undefined

  /** The samples that this piece completes. */
  push(text: string): PowerSample[] {
    const lines = text.split('\n')
    const last = lines.pop() ?? ''
    const samples = lines.flatMap((rest) => {
      this.#grow(rest)
      const line = this.#isTooLong ? '' : this.#pending
      this.#pending = ''
      this.#isTooLong = false
      return this.#read(line.trim())
    })
    this.#grow(last)
    return samples
  }

  #grow(text: string): void {
    this.#isTooLong ||= this.#pending.length + text.length > longestLine
    this.#pending = this.#isTooLong ? '' : this.#pending + text
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
