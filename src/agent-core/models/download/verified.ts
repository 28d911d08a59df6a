import type { Logger } from '../../observability/logger.ts'
import { ModelError } from '../errors.ts'
import { emptyAnswer } from '../http-answer.ts'
import { wrongLength } from './attempt.ts'
import type { PartialFile } from './partial-file.ts'
import type { ProgressReport } from './progress-report.ts'

export interface VerifyOptions {
  readonly shown: string
  readonly announcedBytes?: number | undefined
  /** Hex. */
  readonly announcedSha256?: string | undefined
  /** Its bytes came in several answers: where the file is wrong, mixing them may be the cause. */
  readonly hasManyAnswers: boolean
  readonly progress: ProgressReport
  readonly signal: AbortSignal
  readonly log: Logger
}

/** Fetching tens of gigabytes again helps only where a person has repaired something. */
const quarantineMs = 60 * 60_000

/**
 * Compares what arrived with what was announced. @returns its SHA-256, or `mixed` where it is worth fetching once more, in one piece.
 * What is wrong is moved aside. Throws ModelError.
 */
export async function verified(partial: PartialFile, sizeBytes: number, options: VerifyOptions): Promise<string> {
  const { shown, announcedBytes, announcedSha256, hasManyAnswers, progress, signal, log } = options
  if (sizeBytes === 0) throw emptyAnswer(shown)
  if (announcedBytes !== undefined && sizeBytes !== announcedBytes) {
    const error = wrongLength(shown, announcedBytes, sizeBytes)
    throw await quarantined(partial, 'WrongLength', error.message, options)
  }
  progress.downloading(sizeBytes)
  progress.report()
  const sha256 = await partial.complete(sizeBytes, (bytes) => progress.verifying(bytes, sizeBytes))
  signal.throwIfAborted()
  if (!(await partial.isInPlace())) throw replaced(partial.path)
  const wanted = announcedSha256?.toLowerCase()
  if (wanted === undefined || sha256 === wanted) return sha256
  if (hasManyAnswers) {
    const text = `The parts of ${shown} do not make the file that was announced: the download starts over.`
    log.warn('the checksum of a download in parts is wrong, it starts over', { text, source: shown, sha256, wanted })
    progress.say(text)
    return 'mixed'
  }
  throw await quarantined(
    partial,
    'ChecksumMismatch',
    `${shown} is not the file that was announced: its SHA-256 is ${sha256} and should be ${wanted}; correct spec.sha256 or the file there.`,
    options,
  )
}

async function quarantined(
  partial: PartialFile,
  reason: 'ChecksumMismatch' | 'WrongLength',
  sentence: string,
  { shown, log }: VerifyOptions,
): Promise<ModelError> {
  const aside = await partial.quarantine()
  log.error('a downloaded file is not what was announced', { source: shown, reason, path: aside })
  return new ModelError('transient', reason, `${sentence} What came is kept as ${aside} and never served.`, {
    retryAfterMs: quarantineMs,
  })
}

function replaced(path: string): ModelError {
  return new ModelError(
    'transient',
    'StoreUnusable',
    `${path} was replaced during the download: let only one agent use this model store.`,
  )
}
