import { KeyObject, randomBytes } from 'node:crypto'
import { parentPort } from 'node:worker_threads'
// x509 finds its own parts by what this adds to Reflect.
import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'

const hourMs = 3_600_000
const validDays = 3_650

// A failure ends the thread, which its starter is told.
void issueCertificate(Date.now()).then((made) => parentPort?.postMessage(made))

/** A new key with its self-signed certificate, both as PEM, as LLMKube's own agent makes them. Relays look at nothing of it but the key. */
async function issueCertificate(now: number): Promise<{ certificate: string; key: string }> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: randomBytes(16).toString('hex'),
    name: 'CN=llmkube-metal-agent',
    notBefore: new Date(now - hourMs),
    notAfter: new Date(now - hourMs + validDays * 24 * hourMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new BasicConstraintsExtension(false, undefined, true),
    ],
  })
  const key = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' })
  return { certificate: `${certificate.toString('pem')}\n`, key: String(key) }
}
