import type { BundledPackage } from './bundled-packages.ts'

/** Licences that allow what we do with them, an Apache-2.0 program given away as one file. Another one is for a person to judge. */
const accepted = new Set([
  '0BSD',
  'Apache-2.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'Python-2.0',
  'Unlicense',
])

/** They ask for no copy of themselves. */
const withoutText = new Set(['0BSD', 'Unlicense'])

export class LicenceError extends Error {
  override readonly name = 'LicenceError'
}

/** THIRD_PARTY_NOTICES of a file that is Node.js and these packages. Throws a `LicenceError` where a licence is missing or not an accepted one. */
export function thirdPartyNotices(
  nodeVersion: string,
  nodeLicence: string,
  packages: readonly BundledPackage[],
): string {
  if (nodeLicence.trim() === '') throw new LicenceError(`The licence of Node.js ${nodeVersion} is empty.`)
  const head = 'metal-agent contains Node.js and the packages below. Each stands under its own licence.\n'
  return [head, section(`Node.js ${nodeVersion}`, nodeLicence), ...sectionsOf(packages)].join('\n')
}

/** The same of the app, beside the licences of Electron and Chromium, which electron-builder puts into it. */
export const noticesOfApp = (packages: readonly BundledPackage[]): string =>
  [
    'Metalbar contains Electron, whose licences are in LICENSE.electron.txt and LICENSES.chromium.html, the command metal-agent, of which\n' +
      'THIRD_PARTY_NOTICES.metal-agent.txt tells, and the packages below. Each stands under its own licence.\n',
    ...sectionsOf(packages),
  ].join('\n')

/** The same of files that run on a Node.js that is there. Throws a `LicenceError` too. */
export const noticesOfPackages = (packages: readonly BundledPackage[]): string =>
  ['metal-agent contains the packages below. Each stands under its own licence.\n', ...sectionsOf(packages)].join('\n')

function sectionsOf(packages: readonly BundledPackage[]): string[] {
  const troubles = packages.flatMap((one) => troubleOf(one) ?? [])
  if (troubles.length > 0) throw new LicenceError(`What is bundled cannot be given away:\n${troubles.join('\n')}`)
  return packages.map(({ name, version, identifier = '', text = '' }) =>
    section(`${name} ${version} (${identifier})`, text === '' ? 'Its authors ask for no notice.' : text),
  )
}

function troubleOf({ name, version, identifier, text }: BundledPackage): string | undefined {
  if (identifier === undefined) return `${name} ${version} names no licence.`
  if (!accepted.has(identifier))
    return `${name} ${version} is under ${identifier}, which is not among the accepted licences.`
  const lacksText = (text === undefined || text === '') && !withoutText.has(identifier)
  return lacksText ? `${name} ${version} brings no text of its licence (${identifier}).` : undefined
}

const section = (title: string, text: string): string =>
  `${'='.repeat(80)}\n${title}\n${'='.repeat(80)}\n\n${text.trim()}\n`
