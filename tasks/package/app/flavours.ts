/** What a package of the app is for. Only `release` may reach people: `e2e` lets a test drive the app through the inspector. */
export type Flavour = 'release' | 'e2e'

/** As `electron-builder.yml` has it. */
export const releaseAppId = 'dev.metalbar.app'

/** In the version of every package that must not be released. */
export const e2eSuffix = '-e2e'

/** What the package of each starts with. */
export const mainOf = {
  release: 'out/main/main.js',
  e2e: 'test/support/real-electron/packed-main.js',
} as const satisfies Readonly<Record<Flavour, string>>

/** Signed by nobody, which a Mac with Apple silicon needs in order to run it and no other Mac accepts from a download. */
export const signedByNobody = {
  identity: '-',
  // An app that nobody signed could not load its own framework.
  hardenedRuntime: false,
  notarize: false,
} as const

/** What electron-builder is told besides `electron-builder.yml`. */
export const flavourConfig = {
  release: {},
  e2e: {
    appId: 'dev.metalbar.e2e',
    productName: 'Metalbar E2E',
    mac: {
      // Besides those of a release: what it starts with keeps what a test cannot find from outside.
      files: 'test/support/real-electron/{hook.cjs,packed-main.js}',
      artifactName: 'Metalbar-E2E-${version}-${arch}.${ext}',
      ...signedByNobody,
    },
  },
} as const satisfies Readonly<Record<Flavour, object>>

/** What is about to be signed, as electron-builder has put it together. */
export interface Package {
  readonly appId: string
  readonly version: string
  readonly main: string | null | undefined
  readonly identity: string | null | undefined
  readonly hasPublish: boolean
}

/** By its app id alone, so that no option can give a released app the fuses of the other. Throws where the rest does not go with it. */
export function flavourOf({ appId, version, main, identity, hasPublish }: Package): Flavour {
  if (appId === releaseAppId) {
    if (version.includes(e2eSuffix)) throw new WrongFlavourError(`${version} is no version of ${appId}.`)
    if (main !== mainOf.release) throw new WrongFlavourError(`${appId} starts with ${mainOf.release} alone.`)
    return 'release'
  }
  if (appId !== flavourConfig.e2e.appId) throw new WrongFlavourError(`${appId} is the id of no flavour.`)
  if (!version.endsWith(e2eSuffix)) throw new WrongFlavourError(`The version of ${appId} ends with ${e2eSuffix}.`)
  if (identity !== flavourConfig.e2e.mac.identity) {
    throw new WrongFlavourError(`${appId} lets an inspector in, so it must not be signed as ${identity ?? 'anybody'}.`)
  }
  if (hasPublish) throw new WrongFlavourError(`${appId} lets an inspector in, so it must not be published.`)
  return 'e2e'
}

export class WrongFlavourError extends Error {
  override readonly name = 'WrongFlavourError'
}
