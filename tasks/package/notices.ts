import type { BundledPackage } from './bundled-packages.ts'

/** Licences that allow what we do with them, an Apache-2.0 program given away as one file. Another one is for a person to judge. */
const accepted = new Set([
  '0BSD',
  'Apache-2.0',
  // As permissive as MIT: https://blueoakcouncil.org/license/1.0.0
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'Python-2.0',
  'Unlicense',
])

/** They ask for no copy of themselves. */
const withoutText = new Set(['0BSD', 'Unlicense'])

const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE
USE OR OTHER DEALINGS IN THE SOFTWARE.`

/** Of packages that name a licence and bring no text of it: that text, with the author their package.json names. */
const textsBesides: Readonly<Record<string, string>> = {
  'lazy-val@1.0.5': `Copyright (c) Vladimir Krivosheev\n\n${mit}`,
}

const textOf = ({ name, version, text }: BundledPackage): string =>
  text === undefined || text === '' ? (textsBesides[`${name}@${version}`] ?? '') : text

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
  return packages.map((one) => {
    const text = textOf(one)
    const title = `${one.name} ${one.version} (${one.identifier ?? ''})`
    return section(title, text === '' ? 'Its authors ask for no notice.' : text)
  })
}

function troubleOf(one: BundledPackage): string | undefined {
  const { name, version, identifier } = one
  if (identifier === undefined) return `${name} ${version} names no licence.`
  if (!accepted.has(identifier))
    return `${name} ${version} is under ${identifier}, which is not among the accepted licences.`
  const lacksText = textOf(one) === '' && !withoutText.has(identifier)
  return lacksText ? `${name} ${version} brings no text of its licence (${identifier}).` : undefined
}

const section = (title: string, text: string): string =>
  `${'='.repeat(80)}\n${title}\n${'='.repeat(80)}\n\n${text.trim()}\n`
