import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Identity {
  readonly key: string
  /** Its own authority: clients verify it by trusting it. */
  readonly certificate: string
}

const days = '7'
let identity: Promise<Identity | undefined> | undefined

/** A throw-away certificate for this host, one per process; undefined where there is no `openssl` to make it. */
export function throwAwayIdentity(): Promise<Identity | undefined> {
  identity ??= create()
  return identity
}

async function create(): Promise<Identity | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'kube-sim-'))
  const [keyFile, certificateFile] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')]
  try {
    await promisify(execFile)('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', days],
      ...['-subj', '/CN=kube-sim', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'],
      ...['-keyout', keyFile, '-out', certificateFile],
    ])
    return { key: await readFile(keyFile, 'utf8'), certificate: await readFile(certificateFile, 'utf8') }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
