import { KeyObject, randomBytes } from 'node:crypto'
// x509 finds its own parts by what this adds to Reflect.
import 'reflect-metadata'
import { BasicConstraintsExtension, SubjectAlternativeNameExtension, X509CertificateGenerator } from '@peculiar/x509'

const dayMs = 24 * 3_600_000
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

const keyPair = () => crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])

/** A certificate with its key, both as PEM. */
export interface Certified {
  readonly cert: string
  readonly key: string
  readonly name: string
  readonly privateKey: Awaited<ReturnType<typeof keyPair>>['privateKey']
}

interface CertifiedOptions {
  /** Absent = signed by itself. */
  readonly by?: Certified
  /** Whether it may sign others; false unless told. */
  readonly isAuthority?: boolean
  readonly names?: readonly { readonly type: 'dns' | 'ip'; readonly value: string }[]
  /** From now on; a week from an hour ago unless told. */
  readonly days?: readonly [from: number, to: number]
}

export async function certified(commonName: string, options: CertifiedOptions = {}): Promise<Certified> {
  const { by, isAuthority = false, names = [], days: [from, to] = [-1 / 24, 7] } = options
  const keys = await keyPair()
  const name = `CN=${commonName}`
  const cert = await X509CertificateGenerator.create({
    serialNumber: randomBytes(16).toString('hex'),
    subject: name,
    issuer: by?.name ?? name,
    notBefore: new Date(Date.now() + from * dayMs),
    notAfter: new Date(Date.now() + to * dayMs),
    signingAlgorithm: algorithm,
    publicKey: keys.publicKey,
    signingKey: by?.privateKey ?? keys.privateKey,
    extensions: [
      new BasicConstraintsExtension(isAuthority, undefined, true),
      ...(names.length > 0 ? [new SubjectAlternativeNameExtension([...names])] : []),
    ],
  })
  const key = String(KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }))
  return { cert: `${cert.toString('pem')}\n`, key, name, privateKey: keys.privateKey }
}
