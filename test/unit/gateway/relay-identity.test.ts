import { spawnSync } from 'node:child_process'
import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { identityFolder, relayIdentity, RelayIdentityError } from '../../../src/agent-core/gateway/relay-identity.ts'
import { missingPrograms, skipWhen } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { goIdentity } from './go-identity.ts'

skipWhen(missingPrograms('openssl'))

let state: Awaited<ReturnType<typeof temporaryFolder>>
let folder: string
beforeEach(async () => {
  state = await temporaryFolder()
  folder = identityFolder(state.dir)
})
afterEach(() => state[Symbol.asyncDispose]())

const certificateFile = () => path.join(folder, 'ingress-cert.pem')
const keyFile = () => path.join(folder, 'ingress-key.pem')

/** As LLMKube's own agent leaves it. */
async function givenByGo(): Promise<void> {
  await mkdir(folder, { mode: 0o700 })
  await writeFile(certificateFile(), goIdentity.certificate, { mode: 0o600 })
  await writeFile(keyFile(), goIdentity.key, { mode: 0o600 })
}

const problem = async (): Promise<string> => {
  const error: unknown = await relayIdentity(state.dir).then(
    () => undefined,
    (one: unknown) => one,
  )
  expect(error).toBeInstanceOf(RelayIdentityError)
  return String(error)
}

/** A shell command over files of the identity. */
function opensslSays(command: string): string {
  const { stdout, stderr, status } = spawnSync('/bin/sh', ['-c', command], { cwd: folder, encoding: 'utf8' })
  expect([status, stderr.replace(/^read EC key\n/, '')]).toEqual([0, ''])
  return stdout.trim()
}

describe('an identity that is made', () => {
  test('is the one that LLMKube’s own agent would make, for this user alone, and stays', async () => {
    const before = Date.now()
    const made = await relayIdentity(state.dir)
    const modes = await Promise.all([folder, certificateFile(), keyFile()].map(async (one) => (await stat(one)).mode))
    expect(modes.map((mode) => (mode & 0o777).toString(8))).toEqual(['700', '600', '600'])
    expect((await readdir(folder)).toSorted()).toEqual(['ingress-cert.pem', 'ingress-key.pem'])
    expect(await readFile(keyFile(), 'utf8')).toMatch(/^-----BEGIN PRIVATE KEY-----\n/)
    const certificate = new X509Certificate(await readFile(certificateFile()))
    const validMs = certificate.validToDate.getTime() - certificate.validFromDate.getTime()
    expect({
      subject: certificate.subject,
      issuer: certificate.issuer,
      isOwn: certificate.verify(certificate.publicKey),
      ca: certificate.ca,
      names: certificate.subjectAltName,
      usage: certificate.keyUsage,
      key: certificate.publicKey.asymmetricKeyDetails,
      validDays: validMs / 86_400_000,
      since: Math.round((before - certificate.validFromDate.getTime()) / 60_000),
      serialIsLong: certificate.serialNumber.length > 24,
    }).toEqual({
      ...{ subject: 'CN=llmkube-metal-agent', issuer: 'CN=llmkube-metal-agent', isOwn: true, ca: false },
      ...{ names: undefined, usage: ['1.3.6.1.5.5.7.3.1'], key: { namedCurve: 'prime256v1' } },
      ...{ validDays: 3_650, since: 60, serialIsLong: true },
    })
    const text = opensslSays('openssl x509 -in ingress-cert.pem -noout -text')
    expect(text).toMatch(/X509v3 Key Usage: critical\s+Digital Signature\n/)
    expect(text).toContain('Version: 3')
    expect(await relayIdentity(state.dir)).toEqual(made)
  })

  test('has a serial number above zero, another key than the next, and the pin that openssl computes', async () => {
    const publicKey = 'openssl x509 -in ingress-cert.pem -noout -pubkey | openssl pkey -pubin -outform der'
    const pins = new Set<string>()
    for (let made = 0; made < 2; made += 1) {
      const { pin } = await relayIdentity(state.dir)
      pins.add(pin)
      expect(pin).toBe(opensslSays(`${publicKey} | openssl dgst -sha256 -binary | base64`))
      expect(opensslSays('openssl x509 -in ingress-cert.pem -noout -serial')).toMatch(/^serial=[0-9A-F]+$/)
      await rm(folder, { recursive: true })
    }
    expect(pins.size).toBe(2)
  })
})

test('the one of LLMKube’s own agent is taken as it is, with the pin that Go computes', async () => {
  await givenByGo()
  expect((await relayIdentity(state.dir)).pin).toBe(goIdentity.pin)
  expect(await readFile(keyFile(), 'utf8')).toBe(goIdentity.key)
})

describe('what cannot be used is told, and left as it is', () => {
  const other = generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey
  test.each<[string, () => Promise<unknown>, RegExp]>([
    ['a key that its group may read', () => chmod(keyFile(), 0o640), /other users have access to ingress-key\.pem/],
    ['a key that others may write', () => chmod(keyFile(), 0o602), /other users have access to ingress-key\.pem/],
    ['no key', () => rm(keyFile()), /ingress-key\.pem is missing/],
    ['no certificate', () => rm(certificateFile()), /ingress-cert\.pem is missing/],
    ['half a certificate', () => truncate(certificateFile(), 200), /ingress-cert\.pem holds no certificate in PEM/],
    ['an empty certificate', () => truncate(certificateFile()), /ingress-cert\.pem holds no certificate in PEM/],
    ['half a key', () => truncate(keyFile(), 100), /ingress-key\.pem holds no private key in PEM/],
    [
      'the key of another certificate',
      () => writeFile(keyFile(), other.export({ type: 'pkcs8', format: 'pem' })),
      /is not the key of ingress-cert/,
    ],
    ['a key without an end', () => writeFile(keyFile(), 'x'.repeat(20_000)), /has more than 16 KiB/],
    ['a link that leads nowhere', () => rm(keyFile()).then(() => symlink('/nowhere', keyFile())), /ENOENT/],
    [
      'a folder for a key',
      () => rm(keyFile()).then(() => mkdir(keyFile(), { mode: 0o700 })),
      /not a regular file|EISDIR/,
    ],
    ['a file for the folder', () => rm(folder, { recursive: true }).then(() => writeFile(folder, '')), /EEXIST/],
  ])('%s', async (_what, happens, sentence) => {
    await givenByGo()
    await happens()
    const asItWas = () => readFile(certificateFile(), 'utf8').catch((error: unknown) => String(error))
    const before = await asItWas()
    const said = await problem()
    expect(said).toMatch(sentence)
    expect(said).toContain(`in ${folder}, cannot be used: `)
    expect(said).toContain('or delete the folder to get a new identity')
    expect(await asItWas()).toBe(before)
  })

  test('until its folder is deleted, which gives a new one', async () => {
    await givenByGo()
    await rm(keyFile())
    await problem()
    await rm(folder, { recursive: true })
    expect((await relayIdentity(state.dir)).pin).not.toBe(goIdentity.pin)
  })

  test('a pipe in the place of the key holds nobody up', async () => {
    await givenByGo()
    await rm(keyFile())
    opensslSays('mkfifo -m 600 ingress-key.pem')
    expect(await problem()).toMatch(/not a regular file/)
  })
})

test('a folder that others may look into is closed to them', async () => {
  await givenByGo()
  await chmod(folder, 0o755)
  expect((await relayIdentity(state.dir)).pin).toBe(goIdentity.pin)
  expect((await stat(folder)).mode & 0o777).toBe(0o700)
})

describe('on a disk that is full', () => {
  /** A volume in the place of the folder, of so many pages; undefined where this user may not mount. */
  function volume(pages: number): Disposable | undefined {
    const options = `size=${pages * 4}k,mode=700`
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).status !== 0) return undefined
    return { [Symbol.dispose]: () => void spawnSync('umount', ['-l', folder]) }
  }

  test.for([
    ['there is none, and nothing of one', 1],
    ['where only the certificate would fit, nothing of one is left either', 2],
  ] as const)('%s, until there is room again', async ([, pages], { skip }) => {
    await mkdir(folder, { mode: 0o700 })
    using _volume = volume(pages) ?? skip('needs the right to mount a tmpfs')
    await writeFile(path.join(folder, 'ballast'), 'x')
    expect(await problem()).toMatch(/ENOSPC/)
    expect(await readdir(folder)).toEqual(['ballast'])
    expect(spawnSync('mount', ['-o', 'remount,size=64k', folder]).status).toBe(0)
    const { pin } = await relayIdentity(state.dir)
    expect((await relayIdentity(state.dir)).pin).toBe(pin)
  })
})
