import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import Ajv from 'ajv'
import { expect, test } from 'vitest'
import { electronFoundations } from '../../../tasks/package/foundations.ts'
import { lockedIntegrity, softwareBillOfMaterials, type Described } from '../../../tasks/package/sbom.ts'

const root = path.join(import.meta.dirname, '../../..')
/** The schemas that CycloneDX publishes, as its library carries them. */
const schemas = path.join(
  path.dirname(createRequire(import.meta.url).resolve('@cyclonedx/cyclonedx-library/package.json')),
  'res/schema',
)
const schema = async (name: string) =>
  JSON.parse(await readFile(path.join(schemas, `${name}.SNAPSHOT.schema.json`), 'utf8')) as object

async function violations(text: string): Promise<unknown> {
  const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false, logger: false })
  for (const name of ['spdx', 'jsf-0.82', 'cryptography-defs'])
    ajv.addSchema(await schema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`)
  const isValid = ajv.compile(await schema('bom-1.6'))
  isValid(JSON.parse(text))
  return isValid.errors ?? []
}

const node = {
  name: 'Node.js',
  version: '24.21.0',
  purl: 'pkg:generic/node@24.21.0',
  licence: 'MIT',
  sha256: 'a'.repeat(64),
}

async function described(more: Partial<Described> = {}): Promise<Described> {
  const packages = [
    { name: 'zod', version: '4.6.7', identifier: 'MIT', text: '…' },
    { name: '@kubernetes/client-node', version: '2.0.1', identifier: 'Apache-2.0', text: '…' },
  ]
  const name = 'metal-agent-linux-x64'
  return { name, version: '0.1.0', foundations: [node], packages, integrity: await lockedIntegrity(root), ...more }
}

test('it is CycloneDX 1.6, and names each package with its licence and the hash that npm checked', async () => {
  const text = softwareBillOfMaterials(await described())
  const bom = JSON.parse(text) as { components: { name: string; hashes: unknown[] }[] }
  expect(await violations(text)).toEqual([])
  expect(bom).toMatchObject({
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    metadata: {
      component: { name: 'metal-agent-linux-x64', version: '0.1.0', licenses: [{ license: { id: 'Apache-2.0' } }] },
    },
  })
  const { packages } = JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { integrity: string }>
  }
  const integrity = packages['node_modules/@kubernetes/client-node']?.integrity ?? ''
  expect(bom.components.find(({ name }) => name === '@kubernetes/client-node')).toMatchObject({
    version: '2.0.1',
    purl: 'pkg:npm/%40kubernetes/client-node@2.0.1',
    licenses: [{ license: { id: 'Apache-2.0' } }],
    hashes: [{ alg: 'SHA-512', content: Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex') }],
  })
  expect(bom.components.find(({ name }) => name === 'Node.js')).toMatchObject({
    purl: 'pkg:generic/node@24.21.0',
    hashes: [{ alg: 'SHA-256', content: 'a'.repeat(64) }],
  })
})

test('it is the same text for the same content in another order, and names no time', async () => {
  const one = await described()
  const text = softwareBillOfMaterials(one)
  expect(softwareBillOfMaterials({ ...one, packages: one.packages.toReversed() })).toBe(text)
  expect(text).not.toMatch(/timestamp|serialNumber/)
})

test('what is no CycloneDX is noticed', async () => {
  const text = softwareBillOfMaterials(await described())
  expect(await violations(text.replace('"Apache-2.0"', '"Apache Two"'))).not.toEqual([])
})

test('Electron is named for both kinds of Mac, with the hash of the archive that its package checks', async () => {
  const folder = path.join(root, 'node_modules/electron')
  const json = async (name: string) => JSON.parse(await readFile(path.join(folder, name), 'utf8')) as unknown
  const { version } = (await json('package.json')) as { version: string }
  const hashes = (await json('checksums.json')) as Record<string, string>
  const found = await electronFoundations(root)
  expect(found.map(({ purl, sha256 }) => [purl, sha256])).toEqual(
    ['arm64', 'x64'].map((arch) => [
      `pkg:generic/electron@${version}?arch=${arch}&os=darwin`,
      hashes[`electron-v${version}-darwin-${arch}.zip`],
    ]),
  )
})
