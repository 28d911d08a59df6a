import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import { lstat, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { ensurePrivateFolder } from '../state/state-folder.ts'
import { hasCode, readBounded, syncFolder } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'
import { answerOfWorker } from '../util/worker.ts'

/** What relays know the ingress of this machine by: they trust one key, and are told of it by its pin. */
export interface RelayIdentity {
  /** As PEM. */
  readonly certificate: string
  /** As PEM. */
  readonly key: string
  /** Base64 of the SHA-256 of the public key (SubjectPublicKeyInfo as DER). */
  readonly pin: string
}

/** A sentence: which file of the identity cannot be used, and what to do. */
export class RelayIdentityError extends Error {
  override readonly name = 'RelayIdentityError'
}

const certificateFile = 'ingress-cert.pem'
const keyFile = 'ingress-key.pem'
const maxBytes = 16_384

const issued = z.object({ certificate: z.string(), key: z.string() })

export const identityFolder = (stateDir: string): string => path.join(stateDir, 'ingress')

/**
 * The identity in the state folder, as LLMKube's own agent keeps it there; where there is nothing of one, a new one. What is there and cannot be
 * used is never replaced: each relay would have to learn another pin. Throws RelayIdentityError.
 */
export async function relayIdentity(stateDir: string): Promise<RelayIdentity> {
  const folder = identityFolder(stateDir)
  try {
    await ensurePrivateFolder(folder)
    return (await wholeIdentity(folder)) ?? (await newIdentity(folder))
  } catch (error) {
    throw new RelayIdentityError(
      `The identity by which relays know this machine, in ${folder}, cannot be used: ${messageOf(error)}. Restore its two files, readable by this user only (chmod 600), or delete the folder to get a new identity, which the cluster picks up automatically.`,
      { cause: error },
    )
  }
}

async function wholeIdentity(folder: string): Promise<RelayIdentity | undefined> {
  const [hasCertificate, hasKey] = await Promise.all([isThere(folder, certificateFile), isThere(folder, keyFile)])
  if (!hasCertificate && !hasKey) return undefined
  if (!hasKey) throw new Error(`${keyFile} is missing`)
  if (!hasCertificate) throw new Error(`${certificateFile} is missing`)
  return identityIn(folder)
}

async function identityIn(folder: string): Promise<RelayIdentity> {
  if (((await stat(path.join(folder, keyFile))).mode & 0o077) !== 0) {
    throw new Error(`other users have access to ${keyFile}`)
  }
  const [certificate, key] = await Promise.all(
    [certificateFile, keyFile].map(async (name) => (await readBounded(path.join(folder, name), maxBytes)).toString()),
  )
  const parsed = parsedAs(certificateFile, 'no certificate in PEM', () => new X509Certificate(certificate ?? ''))
  const privateKey = parsedAs(keyFile, 'no private key in PEM', () => createPrivateKey(key ?? ''))
  if (!parsed.checkPrivateKey(privateKey)) throw new Error(`${keyFile} is not the key of ${certificateFile}`)
  return { certificate: certificate ?? '', key: key ?? '', pin: pinOf(parsed) }
}

function parsedAs<T>(name: string, otherwise: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw new Error(`${name} holds ${otherwise}`, { cause: error })
  }
}

async function newIdentity(folder: string): Promise<RelayIdentity> {
  // What issues it takes memory, and is needed once in the life of a Mac: it goes with its thread.
  const issuer = new URL('./relay-certificate-worker.ts', import.meta.url)
  await writeRelayIdentity(folder, issued.parse(await answerOfWorker(issuer, {})))
  return identityIn(folder)
}

/** Writes the certificate first: after a crash in between, the next start reports that the key is missing, and relays know of neither. */
export async function writeRelayIdentity(
  folder: string,
  { certificate, key }: Omit<RelayIdentity, 'pin'>,
): Promise<void> {
  const [certificatePath, keyPath] = [path.join(folder, certificateFile), path.join(folder, keyFile)]
  await writeFileAtomic(certificatePath, certificate, { mode: 0o600 })
  await syncFolder(folder)
  try {
    await writeFileAtomic(keyPath, key, { mode: 0o600 })
  } catch (error) {
    // Nobody knows it yet: without it the next try makes another one.
    await rm(certificatePath, { force: true })
    throw error
  }
  await syncFolder(folder)
}

export const pinOf = ({ publicKey }: X509Certificate): string =>
  createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64')

async function isThere(folder: string, name: string): Promise<boolean> {
  try {
    await lstat(path.join(folder, name))
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    throw error
  }
}
