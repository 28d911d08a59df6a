import { formatByteRate, formatBytes, formatSpan } from '../contract/format.ts'
import type { DownloadView } from '../contract/models.ts'
import type { Progress } from '../contract/service.ts'
import { eraseLine, type CliIo } from './io.ts'
import { cleanText } from '../contract/clean-text.ts'

const barWidth = 30

/** A download as it goes on: one line that changes on a terminal, otherwise a line for each tenth and each new sentence. */
export class DownloadProgress {
  readonly #io: CliIo
  #isOpen = false
  #told = ''

  constructor(io: CliIo) {
    this.#io = io
  }

  say(sentence: string): void {
    this.end()
    this.#io.stdout.write(`${cleanText(sentence)}\n`)
  }

  show({ progress, message }: DownloadView): void {
    const isTerminal = this.#io.stdout.isTTY === true
    const sentence = cleanText(progress?.message ?? message)
    if (isTerminal) {
      const line = progress === undefined || progress.phase === 'waiting' ? sentence : barOf(progress)
      this.#io.stdout.write(`${eraseLine}${line.slice(0, Math.max(20, (this.#io.stdout.columns ?? 80) - 1))}`)
      this.#isOpen = true
      return
    }
    const news = progress === undefined || progress.phase !== undefined ? sentence : tenthOf(progress)
    if (news === this.#told) return
    this.#told = news
    this.#io.stdout.write(`${news}\n`)
  }

  /** The line that changes is left behind. */
  end(): void {
    if (this.#isOpen) this.#io.stdout.write('\n')
    this.#isOpen = false
  }
}

function barOf({ doneBytes, totalBytes, bytesPerSecond }: Progress): string {
  const rate = formatByteRate(bytesPerSecond)
  if (totalBytes === undefined || totalBytes === 0) return `${formatBytes(doneBytes)}  ${rate}`
  const part = Math.min(1, doneBytes / totalBytes)
  const filled = Math.round(part * barWidth)
  const bar = `${'#'.repeat(filled)}${'-'.repeat(barWidth - filled)}`
  const left = bytesPerSecond > 0 ? `  ${formatSpan((1_000 * (totalBytes - doneBytes)) / bytesPerSecond)} left` : ''
  return `[${bar}] ${Math.floor(100 * part)} %  ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}  ${rate}${left}`
}

function tenthOf({ doneBytes, totalBytes }: Progress): string {
  if (totalBytes === undefined || totalBytes === 0) return 'Downloading.'
  return `${10 * Math.floor((10 * doneBytes) / totalBytes)} % of ${formatBytes(totalBytes)}`
}
