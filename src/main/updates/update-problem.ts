import { z } from 'zod'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { cleanText } from '../../contract/clean-text.ts'
import { updateWords } from '../words.ts'

/** Something of ours went wrong with an update, in a sentence. */
export class UpdateError extends Error {}

const coded = z.object({
  message: z.string().default(''),
  code: z.union([z.string(), z.number()]).optional(),
  domain: z.string().optional(),
})

const words = updateWords.problems

const sentences: readonly (readonly [is: RegExp, sentence: string])[] = [
  [/^ENOSPC|ENOSPC: no space/, words.diskFull],
  [/^(EACCES|EPERM|EROFS)/, words.folder],
  [/ERR_CHECKSUM_MISMATCH|checksum mismatch/, words.checksum],
  [/SQRLCodeSignatureErrorDomain|did not pass validation/, words.signature],
  [/Could not get code signature for running/, words.unsigned],
  [/read-only volume/, words.readOnly],
  [/SQRLZipArchiverErrorDomain|Could not locate update bundle/, words.archive],
  [
    /ERR_UPDATER_CHANNEL_FILE_NOT_FOUND|ERR_UPDATER_LATEST_VERSION_NOT_FOUND|ERR_UPDATER_NO_PUBLISHED_VERSIONS|No published versions/,
    words.noRelease,
  ],
  [/ERR_CERT_|ERR_SSL_/, words.certificate],
  [/HTTP_ERROR_5|status 5\d\d/, words.serverError],
  [/HTTP_ERROR_4|status 4\d\d/, words.notServed],
  [/ERR_UPDATER_|YAMLException|Cannot read properties of/, words.notUnderstood],
  [/net::ERR_CONTENT_LENGTH_MISMATCH|net::ERR_NETWORK_CHANGED|aborted/, words.interrupted],
  [/net::ERR_/, words.unreachable],
]

/** What went wrong with an update, for a person. The log has the error itself. */
export function problemOf(error: unknown): string {
  if (error instanceof UpdateError) return error.message
  const { message, code = '', domain = '' } = coded.safeParse(error).data ?? { message: messageOf(error) }
  const signs = `${code} ${domain} ${message}`.trim()
  const found = sentences.find(([is]) => is.test(signs))
  return found?.[1] ?? words.other(cleanText(message).trim().slice(0, 200))
}
