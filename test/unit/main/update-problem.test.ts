import { expect, test } from 'vitest'
import { problemOf, UpdateError } from '../../../src/main/updates/update-problem.ts'

const coded = (message: string, code: string | number, domain?: string) =>
  Object.assign(new Error(message), { code, ...(domain !== undefined && { domain }) })

test.for<[error: unknown, sentence: string]>([
  [coded('ENOSPC: no space left on device, write', 'ENOSPC'), 'The disk is full'],
  [coded('EACCES: permission denied, mkdir', 'EACCES'), 'cannot be written'],
  [
    coded('sha512 checksum mismatch, expected a, got b', 'ERR_CHECKSUM_MISMATCH'),
    'its checksum differs from the published one',
  ],
  [
    coded('Code signature at URL file:///x did not pass validation', -1, 'SQRLCodeSignatureErrorDomain'),
    'not signed by',
  ],
  [coded('Could not get code signature for running application', 0), 'This app is not signed'],
  [coded('Cannot update while running on a read-only volume', 8, 'SQRLUpdaterErrorDomain'), 'move it to Applications'],
  [new Error('net::ERR_INTERNET_DISCONNECTED'), 'cannot be reached'],
  [new Error('net::ERR_CERT_DATE_INVALID'), 'update server is not trusted'],
  [coded('502', 'HTTP_ERROR_502'), 'reports an error'],
  [coded('Cannot find channel', 'ERR_UPDATER_CHANNEL_FILE_NOT_FOUND'), 'no release'],
  [new TypeError('Cannot read properties of null'), 'cannot be read'],
  [new UpdateError('As it is.'), 'As it is.'],
  ['\u0007strange', 'The update failed: strange'],
])('%o is told as: %s', ([error, sentence]) => {
  expect(problemOf(error)).toContain(sentence)
})
