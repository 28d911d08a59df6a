import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { identityFolder, readRelayIdentity, relayIdentity } from '../../../../src/agent-core/gateway/relay-identity.ts'
import { InstallationError } from '../../../../src/installation/installation-host.ts'
import { dropKeptIdentity, giveIdentityBack, takeIdentity } from '../../../../src/installation/migration/identity.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { goIdentity } from '../../gateway/go-identity.ts'

async function mac() {
  const { dir, ...folder } = await temporaryFolder()
  const [theirs, stateDir] = [path.join(dir, 'llmkube/ingress'), path.join(dir, 'state')]
  for (const one of [theirs, stateDir]) await mkdir(one, { recursive: true })
  await writeFile(path.join(theirs, 'ingress-cert.pem'), goIdentity.certificate, { mode: 0o600 })
  await writeFile(path.join(theirs, 'ingress-key.pem'), goIdentity.key, { mode: 0o600 })
  const ownPin = async () => (await readRelayIdentity(identityFolder(stateDir)))?.pin
  return { theirs, stateDir, ownPin, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() }
}

test('relays know this agent by the Go agent’s key from then on, and by its own again once that is taken back', async () => {
  await using here = await mac()
  const { theirs, stateDir, ownPin } = here
  const { pin } = await relayIdentity(stateDir)
  await takeIdentity(theirs, stateDir)
  // As a move that continues does.
  await takeIdentity(theirs, stateDir)
  expect(await ownPin()).toBe(goIdentity.pin)
  await giveIdentityBack(theirs, stateDir)
  await giveIdentityBack(theirs, stateDir)
  expect([await ownPin(), (await readRelayIdentity(theirs))?.pin]).toEqual([pin, goIdentity.pin])
})

test('where this agent had none, none is left; and none of before is kept once the move is final', async () => {
  await using here = await mac()
  const { theirs, stateDir, ownPin } = here
  await takeIdentity(theirs, stateDir)
  await giveIdentityBack(theirs, stateDir)
  expect(await ownPin()).toBeUndefined()
  await relayIdentity(stateDir)
  await takeIdentity(theirs, stateDir)
  await dropKeptIdentity(stateDir)
  expect([await ownPin(), await readdir(path.join(stateDir, 'migration'))]).toEqual([goIdentity.pin, []])
})

test('a move after one that kept an identity leaves that one to be given back', async () => {
  await using here = await mac()
  const { theirs, stateDir, ownPin } = here
  const { pin } = await relayIdentity(stateDir)
  await takeIdentity(theirs, stateDir)
  await rm(identityFolder(stateDir), { recursive: true })
  await relayIdentity(stateDir)
  await takeIdentity(theirs, stateDir)
  expect(await ownPin()).toBe(goIdentity.pin)
  await giveIdentityBack(theirs, stateDir)
  expect(await ownPin()).toBe(pin)
})

test('a copy that cannot be written, or whose original has gone, leaves all as it was', async () => {
  await using here = await mac()
  const { theirs, stateDir, ownPin } = here
  const { pin } = await relayIdentity(stateDir)
  await writeFile(path.join(stateDir, 'migration'), 'no folder')
  await expect(takeIdentity(theirs, stateDir)).rejects.toThrow(
    /^The Go agent's identity cannot be copied to .*ingress: /,
  )
  await rm(path.join(theirs, 'ingress-key.pem'))
  await expect(takeIdentity(theirs, stateDir)).rejects.toThrow(InstallationError)
  expect(await ownPin()).toBe(pin)
})
