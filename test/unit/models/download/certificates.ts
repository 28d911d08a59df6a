import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { CertificateFiles } from '../../../support/model-server/behaviour.ts'

const run = promisify(execFile)

/** A certificate that signs itself, with those options of `openssl req`. Skips the test where there is no openssl. */
export async function certificate(
  folder: string,
  skip: (note: string) => never,
  options: readonly string[],
): Promise<CertificateFiles> {
  const [keyFile, certificateFile] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  try {
    await run('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', '/CN=model-server', '-keyout', keyFile, '-out', certificateFile, ...options],
    ])
  } catch (error) {
    skip(`needs openssl: ${String(error)}`)
  }
  return { keyFile, certificateFile }
}

/** Only `openssl ca` makes certificates of the past. */
export async function expiredCertificate(folder: string, skip: (note: string) => never): Promise<CertificateFiles> {
  const made = await certificate(folder, skip, ['-days', '2'])
  const [config, request] = [join(folder, 'ca.cnf'), join(folder, 'request.pem')]
  await writeFile(join(folder, 'index.txt'), '')
  await writeFile(
    config,
    [
      '[ca]\ndefault_ca = own\n[own]',
      `database = ${folder}/index.txt`,
      `new_certs_dir = ${folder}`,
      'rand_serial = yes\ndefault_md = sha256\npolicy = any\nx509_extensions = names',
      '[any]\ncommonName = supplied\n[names]\nsubjectAltName = IP:127.0.0.1\n',
    ].join('\n'),
  )
  await run('openssl', ['req', '-new', '-key', made.keyFile, '-subj', '/CN=model-server', '-out', request])
  await run('openssl', [
    ...['ca', '-batch', '-selfsign', '-config', config, '-keyfile', made.keyFile, '-in', request],
    ...['-startdate', '20200101000000Z', '-enddate', '20200102000000Z', '-out', made.certificateFile, '-notext'],
  ])
  return made
}
