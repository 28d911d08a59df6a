import { z } from 'zod'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { cleanText } from '../../contract/clean-text.ts'

/** Something of ours went wrong with an update, in a sentence. */
export class UpdateError extends Error {}

const coded = z.object({
  message: z.string().default(''),
  code: z.union([z.string(), z.number()]).optional(),
  domain: z.string().optional(),
})

const stays = 'Nothing was changed, and this version keeps running.'

const unreachable =
  'The update server cannot be reached: check that this machine is online, and that no proxy or firewall is in the way.'
const noSense = `The update server sent an answer that makes no sense. ${stays} Try again later.`

const sentences: readonly (readonly [is: RegExp, sentence: string])[] = [
  [
    /^ENOSPC|ENOSPC: no space/,
    `The disk is full, so the update was not stored. ${stays} Free some space and try again.`,
  ],
  [/^(EACCES|EPERM|EROFS)/, `The folder for updates, ~/Library/Caches, cannot be written. ${stays}`],
  [
    /ERR_CHECKSUM_MISMATCH|checksum mismatch/,
    `The download was deleted, since its checksum differs from the published one. ${stays} Try again later.`,
  ],
  [
    /SQRLCodeSignatureErrorDomain|did not pass validation/,
    `The update is not signed by the publisher of this app, or was changed afterwards. It is not installed. ${stays}`,
  ],
  [
    /Could not get code signature for running/,
    `This app is not signed, and macOS updates only signed ones: take the new version from the release page.`,
  ],
  [/read-only volume/, 'The app is on a disk that cannot be written: move it to Applications first.'],
  [
    /SQRLZipArchiverErrorDomain|Could not locate update bundle/,
    `The update cannot be unpacked. It is not installed. ${stays}`,
  ],
  [
    /ERR_UPDATER_CHANNEL_FILE_NOT_FOUND|ERR_UPDATER_LATEST_VERSION_NOT_FOUND|ERR_UPDATER_NO_PUBLISHED_VERSIONS|No published versions/,
    'The update server has no release on this channel.',
  ],
  [/ERR_CERT_|ERR_SSL_/, `The certificate of the update server is not trusted. ${stays}`],
  [/HTTP_ERROR_5|status 5\d\d/, 'The update server reports an error. Try again later.'],
  [
    /HTTP_ERROR_4|status 4\d\d/,
    `The update server does not serve the file that it announces. ${stays} Try again later.`,
  ],
  [/ERR_UPDATER_|YAMLException|Cannot read properties of/, noSense],
  [
    /net::ERR_CONTENT_LENGTH_MISMATCH|net::ERR_NETWORK_CHANGED|aborted/,
    `The download was interrupted. ${stays} Try again.`,
  ],
  [/net::ERR_/, unreachable],
]

/** What went wrong with an update, for a person. The log has the error itself. */
export function problemOf(error: unknown): string {
  if (error instanceof UpdateError) return error.message
  const { message, code = '', domain = '' } = coded.safeParse(error).data ?? { message: messageOf(error) }
  const signs = `${code} ${domain} ${message}`.trim()
  const found = sentences.find(([is]) => is.test(signs))
  return found?.[1] ?? `The update failed: ${cleanText(message).trim().slice(0, 200)}. ${stays}`
}

interface PublishedFile {
  readonly url: string
}

/** The archive among a release's files that electron-updater would download on this Mac. */
export function archiveFor<F extends PublishedFile>(files: readonly F[], isArm64Mac: boolean): F | undefined {
  const archives = files.filter(({ url }) => url.toLowerCase().endsWith('.zip'))
  const arm64 = archives.filter(isForArm64)
  // A Mac of Apple's own chips runs the other too, where there is no better one.
  const fit = isArm64Mac && arm64.length > 0 ? arm64 : archives.filter((file) => !isForArm64(file))
  return fit.find(({ url }) => url.includes(process.arch)) ?? fit[0]
}

const isForArm64 = ({ url }: PublishedFile): boolean => url.includes('arm64')
