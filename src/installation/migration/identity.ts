import { mkdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import {
  identityFolder,
  readRelayIdentity,
  RelayIdentityError,
  writeRelayIdentity,
} from '../../agent-core/gateway/relay-identity.ts'
import { statIfThere } from '../../agent-core/models/store/files.ts'
import { syncFolder } from '../../agent-core/util/files.ts'
import { attempt, InstallationError } from '../installation-host.ts'
import { migrationFolder } from './record.ts'

/** By what relays know a Go agent in relay mode. Nothing is moved while there is a problem. */
export type GoIdentity =
  | { readonly folder: string; readonly pin: string; readonly problem?: undefined }
  | { readonly folder: string; readonly pin?: undefined; readonly problem: string }

export async function lookAtIdentity(folder: string): Promise<GoIdentity> {
  try {
    const found = await readRelayIdentity(folder)
    if (found) return { folder, pin: found.pin }
    const problem = `The Go agent is in relay mode, but the certificate and key by which relays know it are not in ${folder}: restore that folder, or start the Go agent again, which makes new ones there.`
    return { folder, problem }
  } catch (error) {
    if (!(error instanceof RelayIdentityError)) throw error
    return { folder, problem: error.message }
  }
}

/** What relays knew this agent by before it has been moved to, if anything. */
const keptFolder = (stateDir: string): string => path.join(migrationFolder(stateDir), 'ingress')

/** From now on relays know our agent by what they know the Go agent by, whose own folder stays as it is. Throws InstallationError. */
export async function takeIdentity(folder: string, stateDir: string): Promise<void> {
  const theirs = await readRelayIdentity(folder).catch((error: unknown) => {
    throw error instanceof RelayIdentityError ? new InstallationError(error.message, { cause: error }) : error
  })
  if (!theirs) throw new InstallationError(`The Go agent's identity is no longer in ${folder}: put it back.`)
  const own = identityFolder(stateDir)
  if ((await pinIn(own)) === theirs.pin) return
  await attempt(`The Go agent's identity cannot be copied to ${own}`, async () => {
    const beside = path.join(migrationFolder(stateDir), 'ingress.new')
    await rm(beside, { recursive: true, force: true })
    await mkdir(beside, { recursive: true, mode: 0o700 })
    await writeRelayIdentity(beside, theirs)
    const kept = keptFolder(stateDir)
    // What an earlier move kept is the older one, which is to be given back.
    if ((await statIfThere(kept)) !== undefined) await rm(own, { recursive: true, force: true })
    else if ((await statIfThere(own)) !== undefined) await rename(own, kept)
    await rename(beside, own)
    await syncFolder(stateDir)
  })
}

/** Our agent is known by what it was known by before {@link takeIdentity}. */
export async function giveIdentityBack(folder: string, stateDir: string): Promise<void> {
  const own = identityFolder(stateDir)
  const taken = await pinIn(own)
  if (taken !== undefined && taken === (await pinIn(folder))) await rm(own, { recursive: true, force: true })
  const kept = keptFolder(stateDir)
  if ((await statIfThere(kept)) !== undefined && (await statIfThere(own)) === undefined) await rename(kept, own)
}

export const dropKeptIdentity = (stateDir: string): Promise<void> =>
  rm(keptFolder(stateDir), { recursive: true, force: true })

/** Undefined where there is none that can be used. */
async function pinIn(folder: string): Promise<string | undefined> {
  try {
    return (await readRelayIdentity(folder))?.pin
  } catch (error) {
    if (error instanceof RelayIdentityError) return undefined
    throw error
  }
}
