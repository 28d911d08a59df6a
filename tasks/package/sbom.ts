import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { Enums, Models, Serialize, Spec } from '@cyclonedx/cyclonedx-library'
import { z } from 'zod'
import type { BundledPackage } from './bundled-packages.ts'

/** What is inside beside packages of npm: Node.js, Electron. */
export interface Foundation {
  readonly name: string
  readonly version: string
  /** https://github.com/package-url/purl-spec */
  readonly purl: string
  readonly licence: string
  /** In hex, of the file that it comes as. */
  readonly sha256: string
}

export interface Described {
  /** As people download it. */
  readonly name: string
  readonly version: string
  readonly foundations: readonly Foundation[]
  readonly packages: readonly BundledPackage[]
  /** NAME@VERSION → integrity, as package-lock.json has it. */
  readonly integrity: ReadonlyMap<string, string>
}

/** CycloneDX 1.6 as JSON: the same bytes for the same content, since it names no time and no machine. */
export function softwareBillOfMaterials({ name, version, foundations, packages, integrity }: Described): string {
  const bom = new Models.Bom()
  const licence = new Models.SpdxLicense('Apache-2.0')
  const licenses = new Models.LicenseRepository([licence])
  bom.metadata.component = new Models.Component(Enums.ComponentType.Application, name, {
    version,
    licenses,
    bomRef: name,
  })
  for (const foundation of foundations) bom.components.add(ofFoundation(foundation))
  for (const one of packages) bom.components.add(ofPackage(one, integrity.get(`${one.name}@${one.version}`)))
  for (const { bomRef } of bom.components) bom.metadata.component.dependencies.add(bomRef)
  const form = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6)
  return `${new Serialize.JsonSerializer(form).serialize(bom, { sortLists: true, space: 2 })}\n`
}

function ofFoundation({ name, version, purl, licence, sha256 }: Foundation): Models.Component {
  const component = new Models.Component(Enums.ComponentType.Framework, name, { version, purl, bomRef: purl })
  component.licenses.add(new Models.SpdxLicense(licence))
  component.hashes.set(Enums.HashAlgorithm['SHA-256'], sha256)
  return component
}

function ofPackage({ name, version, identifier }: BundledPackage, integrity: string | undefined): Models.Component {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  const component = new Models.Component(Enums.ComponentType.Library, name, { version, purl, bomRef: purl })
  if (identifier !== undefined) component.licenses.add(new Models.SpdxLicense(identifier))
  const hash = sha512(integrity)
  if (hash !== undefined) component.hashes.set(Enums.HashAlgorithm['SHA-512'], hash)
  return component
}

const sha512 = (integrity: string | undefined): string | undefined =>
  integrity?.startsWith('sha512-') === true ? Buffer.from(integrity.slice(7), 'base64').toString('hex') : undefined

const lock = z.object({
  packages: z.record(z.string(), z.object({ version: z.string().optional(), integrity: z.string().optional() })),
})

/** NAME@VERSION → integrity of every package in package-lock.json. */
export async function lockedIntegrity(root: string): Promise<ReadonlyMap<string, string>> {
  const { packages } = lock.parse(JSON.parse(await readFile(path.join(root, 'package-lock.json'), 'utf8')))
  const found = Object.entries(packages).flatMap(([key, { version, integrity }]) => {
    const name = key.split('node_modules/').at(-1) ?? ''
    return version === undefined || integrity === undefined ? [] : [[`${name}@${version}`, integrity] as const]
  })
  return new Map(found)
}
