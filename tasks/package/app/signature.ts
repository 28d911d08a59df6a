import type { Flavour } from './flavours.ts'

/**
 * Reads what `codesign -dvv` says of a signed app, since electron-builder takes whatever certificate of the keychain comes nearest to the
 * identity it was given. Throws WrongSignatureError where an app that lets an inspector in is signed as a person, or a release as nobody.
 */
export function checkSignature(flavour: Flavour, mustSign: boolean, said: string): void {
  const isAdHoc = /^Signature=adhoc$/m.test(said)
  if (flavour === 'e2e' && !isAdHoc) {
    throw new WrongSignatureError(`An app that lets an inspector in must be signed ad hoc, and codesign says:\n${said}`)
  }
  if (flavour === 'release' && mustSign && !/^Authority=Developer ID Application: /m.test(said)) {
    throw new WrongSignatureError(`A release must be signed with a Developer ID, and codesign says:\n${said}`)
  }
}

/** What Apple's notary asks for; electron-builder only warns where it is missing. */
const notaryVariables = ['APPLE_API_KEY', 'APPLE_API_KEY_ID', 'APPLE_API_ISSUER'] as const

/** @returns those that are not set. */
export function missingForNotary(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  return notaryVariables.filter((name) => (env[name] ?? '') === '')
}

export class WrongSignatureError extends Error {
  override readonly name = 'WrongSignatureError'
}
