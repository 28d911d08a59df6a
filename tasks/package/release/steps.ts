import { flavourConfig } from '../app/flavours.ts'

/** What a release is made of, in order. */
export interface Step {
  readonly name: string
  /** What it proves. */
  readonly about: string
  /** Only a Mac has what it calls. */
  readonly needsMac: boolean
  /** Programs with their arguments, one after the other. */
  readonly commands: readonly (readonly string[])[]
}

const identity = '$METALBAR_IDENTITY'
const archs = ['arm64', 'x64'] as const
const appOf = { arm64: 'out/app/mac-arm64/Metalbar.app', x64: 'out/app/mac/Metalbar.app' } as const
// In a folder of this name the app counts as installed, and offers to move nowhere.
const e2eFolder = 'out/e2e/Applications'
const e2eName = flavourConfig.e2e.productName
const e2eApp = `${e2eFolder}/mac-arm64/${e2eName}.app`
const notary = ['--key', '$APPLE_API_KEY', '--key-id', '$APPLE_API_KEY_ID', '--issuer', '$APPLE_API_ISSUER', '--wait']
const script = (...args: readonly string[]) => ['node', 'tasks/package/release.ts', ...args]

/** Words that begin with `$` are taken from the environment when the step runs. */
export const stepsOf = (version: string): readonly Step[] => [
  {
    name: 'version',
    about: 'the tag, package.json and the changelog name the same version',
    needsMac: false,
    commands: [script('--check-version', '$RELEASE_TAG')],
  },
  {
    name: 'commands',
    about:
      'the command of both kinds of Mac is signed with allow-jit alone, known to Apple, and starts (that for Intel by Rosetta)',
    needsMac: true,
    commands: archs.flatMap((arch) => {
      const folder = `out/package/metal-agent-darwin-${arch}`
      const command = `${folder}/metal-agent`
      const sign = ['--force', '--timestamp', '--options', 'runtime', '--entitlements', 'entitlements.plist']
      return [
        script('--build-command', arch),
        ['codesign', '--sign', identity, ...sign, command],
        ['codesign', '--verify', '--strict', '--verbose=2', command],
        ['ditto', '-c', '-k', command, `${folder}.notary.zip`],
        ['xcrun', 'notarytool', 'submit', `${folder}.notary.zip`, ...notary],
        // The notary's word itself: nothing can be stapled to a single file.
        ['codesign', '--verify', '-R=notarized', '--check-notarization', '--verbose=2', command],
        ['arch', `-${arch === 'x64' ? 'x86_64' : arch}`, command, '--version'],
        script('--pack-command', arch),
      ]
    }),
  },
  {
    name: 'app',
    about: 'both disk images hold the signed app with its command, and Apple knows app and image',
    needsMac: true,
    commands: [
      ['npm', 'run', '--silent', 'build'],
      ['node', 'tasks/package/build-app.ts', '--signed'],
      ...archs.flatMap((arch) => [
        ['xcrun', 'notarytool', 'submit', imageOf(version, arch), ...notary],
        ['xcrun', 'stapler', 'staple', imageOf(version, arch)],
      ]),
    ],
  },
  {
    name: 'assess',
    about: 'Gatekeeper lets people open what they download, without a network too',
    needsMac: true,
    commands: archs.flatMap((arch) => [
      ['codesign', '--verify', '--deep', '--strict', '--verbose=2', appOf[arch]],
      ['spctl', '--assess', '--type', 'execute', '--verbose', appOf[arch]],
      ['xcrun', 'stapler', 'validate', appOf[arch]],
      [
        'spctl',
        '--assess',
        '--type',
        'open',
        '--context',
        'context:primary-signature',
        '--verbose',
        imageOf(version, arch),
      ],
      ['xcrun', 'stapler', 'validate', imageOf(version, arch)],
    ]),
  },
  {
    name: 'electron',
    about: 'the packed app on Electron itself, by Playwright: of the flavour for tests, which is signed for nobody',
    needsMac: true,
    commands: [
      ['node', 'tasks/package/build-app.ts', '--flavour', 'e2e', '--dir', '--arch', 'arm64', '--output', e2eFolder],
      ['codesign', '--verify', '--deep', '--strict', e2eApp],
      ['env', `ELECTRON_PATH=${e2eApp}/Contents/MacOS/${e2eName}`, 'npx', 'vitest', 'run', '--project', 'electron'],
    ],
  },
  {
    name: 'files',
    about: 'everything people get is there, nothing else is, and its hashes are written down',
    needsMac: false,
    commands: [script('--collect')],
  },
  {
    name: 'draft',
    about: 'a person looks at the draft before anybody gets it',
    needsMac: false,
    commands: [script('--draft', '$RELEASE_TAG')],
  },
]

const imageOf = (version: string, arch: (typeof archs)[number]): string => `out/app/Metalbar-${version}-${arch}.dmg`

export class ReleaseError extends Error {
  override readonly name = 'ReleaseError'
}

/** Throws ReleaseError where the three do not name the same version. */
export function checkVersion(tag: string, version: string, changelog: string): void {
  if (!/^\d+\.\d+\.\d+(-(alpha|beta)\.\d+)?$/.test(version))
    throw new ReleaseError(`${version} is no version that can be released.`)
  if (tag !== `v${version}`) throw new ReleaseError(`The tag is ${tag}, and package.json says ${version}.`)
  const sections = changelog.split('\n').filter((line) => line.startsWith('## '))
  if (!sections.some((line) => line.slice(3).split(' ')[0] === version)) {
    throw new ReleaseError(`CHANGELOG.md has no section ${version}: name what is unreleased by it.`)
  }
}

/** The files of a release, by name. */
export const filesOf = (version: string): readonly string[] => [
  ...archs.flatMap((arch) => [
    `Metalbar-${version}-${arch}.dmg`,
    `Metalbar-${version}-${arch}.zip`,
    `Metalbar-${version}-${arch}.zip.blockmap`,
  ]),
  'latest-mac.yml',
  ...archs.map((arch) => `metal-agent-darwin-${arch}.tar.gz`),
  `metalbar-${version}.tgz`,
]

/** Throws ReleaseError where a file is missing, or one is there that must never reach people. */
export function checkFiles(version: string, names: readonly string[]): void {
  const missing = filesOf(version).filter((name) => !names.includes(name))
  if (missing.length > 0) throw new ReleaseError(`What a release needs is missing: ${missing.join(', ')}.`)
  const forTests = names.filter((name) => /e2e/i.test(name))
  if (forTests.length > 0)
    throw new ReleaseError(`What lets an inspector in must not be released: ${forTests.join(', ')}.`)
}
