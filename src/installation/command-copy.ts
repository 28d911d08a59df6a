import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { lstat, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { ensurePrivateFolder } from '../agent-core/state/state-folder.ts'
import { hasCode, syncFolder } from '../agent-core/util/files.ts'
import { attempt } from './installation-host.ts'

/** The folder with this agent's own copy of the command. */
export const commandFolder = (stateDir: string): string => path.join(stateDir, 'command')

/** What launchd and the app start, the same for every version: macOS keeps what a person allowed a program by its path. */
export const copiedCommand = (stateDir: string): string => path.join(commandFolder(stateDir), 'metal-agent')

export interface CopyRequest {
  /** The self-contained command, in an app or wherever a person has put it; links to it are followed. */
  readonly command: string
  readonly stateDir: string
}

/** Whether the copy has these bytes already; false for a link, whose content may change. Throws InstallationError. */
export const isCopied = ({ command, stateDir }: CopyRequest): Promise<boolean> =>
  attempt(`${command} cannot be read`, async () => {
    const copy = copiedCommand(stateDir)
    try {
      if (!(await lstat(copy)).isFile()) return false
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return false
      throw error
    }
    return (await sha256(command)) === (await sha256(copy))
  })

/**
 * Copies the command below the state folder, where it outlives the app that it came with; answers the copy. One rename puts it in place: what is
 * started meanwhile runs the old or the new one, and what runs keeps its own. Throws InstallationError.
 */
export async function copyCommand(request: CopyRequest): Promise<string> {
  const { command, stateDir } = request
  const copy = copiedCommand(stateDir)
  if (await isCopied(request)) return copy
  const folder = commandFolder(stateDir)
  const unfinished = path.join(folder, `.${randomUUID()}.unfinished`)
  return attempt(`${command} could not be copied to ${folder}`, async () => {
    await ensurePrivateFolder(stateDir)
    await ensurePrivateFolder(folder)
    try {
      // The bytes alone: with the attributes macOS would keep the mark of a download, and ask a person before launchd may start the copy.
      const options = { flags: 'wx', mode: 0o700, flush: true }
      await pipeline(createReadStream(command), createWriteStream(unfinished, options))
      await rename(unfinished, copy)
      await syncFolder(folder)
    } finally {
      await rm(unfinished, { force: true })
    }
    return copy
  })
}

/** The same, copied at the first call; later calls answer at once. */
export function onceCopied(request: CopyRequest): () => Promise<string> {
  let copy: string | undefined
  return async () => (copy ??= await copyCommand(request))
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
