import { describe, expect, test } from 'vitest'
import { checkSignature, missingForNotary, WrongSignatureError } from '../../../tasks/package/app/signature.ts'
import { updatesFrom } from '../../../tasks/package/app/app-build.ts'

const adHoc = 'Identifier=dev.metalbar.e2e\nSignature=adhoc\nTeamIdentifier=not set\n'
const person = 'Identifier=dev.metalbar.app\nAuthority=Apple Development: me@my-host (ABC)\nTeamIdentifier=ABC\n'
const developer = 'Authority=Developer ID Application: Jean-Luc (ABC)\nAuthority=Apple Root CA\n'

describe('a signature', () => {
  test.each([
    ['e2e', false, person],
    ['e2e', false, developer],
    ['release', true, person],
    ['release', true, adHoc],
    ['release', true, ''],
  ] as const)('of %s (must be signed: %s) is refused where it is not its own', (flavour, mustSign, said) => {
    expect(() => checkSignature(flavour, mustSign, said)).toThrow(WrongSignatureError)
  })

  test.each([
    ['e2e', false, adHoc],
    ['release', true, developer],
    ['release', false, adHoc],
  ] as const)('of %s (must be signed: %s) is taken', (flavour, mustSign, said) => {
    expect(() => checkSignature(flavour, mustSign, said)).not.toThrow()
  })
})

test('what the notary needs is named before anything is built', () => {
  expect(missingForNotary({ APPLE_API_KEY: 'key', APPLE_API_ISSUER: '' })).toEqual([
    'APPLE_API_KEY_ID',
    'APPLE_API_ISSUER',
  ])
})

test('an app takes its own code from https alone, and carries nobody’s password', () => {
  expect([updatesFrom(undefined), updatesFrom(''), updatesFrom('https://updates.example/metalbar/')]).toEqual([
    undefined,
    undefined,
    'https://updates.example/metalbar/',
  ])
  for (const wrong of ['http://updates.example/', 'https://me:secret@updates.example/', 'https://me@x.example/', 'no'])
    expect(() => updatesFrom(wrong)).toThrow('https:// address without a password')
})
