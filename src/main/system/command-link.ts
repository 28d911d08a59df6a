import { constants } from 'node:fs'
import { access, mkdir, readlink, rm, stat, symlink } from 'node:fs/promises'
import path from 'node:path'
import { hasCode } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { CommandLinkState } from '../../contract/app-state.ts'
import { LinkError } from '../../contract/client.ts'
import { shellWord } from '../../contract/shell.ts'
import { machineWords } from '../words.ts'
import { insideAnApp } from '../../installation/uninstall/traces.ts'

export interface CommandLinkOptions {
  /** The command inside of the app; undefined where the app has none or does not stay where it is. */
  readonly command: string | undefined
  readonly homeDir: string
  /** The person's own, as a login shell has it. */
  readonly pathVariable: () => Promise<string>
}

const name = 'metal-agent'

const words = machineWords.command

/** A link that a shell finds; the command itself stays in the app. Nothing but such a link is ever written over or deleted. */
export class CommandLink {
  readonly #options: CommandLinkOptions

  constructor(options: CommandLinkOptions) {
    this.#options = options
  }

  async state(): Promise<CommandLinkState> {
    const { command } = this.#options
    if (command === undefined || !(await isThere(command))) return { state: 'unavailable' }
    let ours: CommandLinkState = { state: 'absent' }
    for (const folder of await this.#folders()) {
      const file = path.join(folder, name)
      const found = await lookAt(file, command)
      // A shell takes the first of them.
      if (found.state === 'foreign' && ours.state === 'absent') return found
      if (found.state !== 'absent' && found.state !== 'foreign' && ours.state === 'absent') ours = found
    }
    return ours
  }

  /** Answers the link. Throws LinkError. */
  async link(): Promise<string> {
    const { command = '' } = this.#options
    const now = await this.state()
    switch (now.state) {
      case 'linked':
        return now.file
      case 'unavailable':
        throw new LinkError('refused', words.unavailable)
      case 'foreign':
        throw new LinkError('refused', words.foreign(now.file))
      case 'outdated':
        await remove(now.file)
        return make(command, now.file)
      case 'absent':
        return make(command, path.join(await this.#firstWritable(command), name))
    }
  }

  /** Takes away what {@link link} made. Throws LinkError. */
  async unlink(): Promise<void> {
    const now = await this.state()
    if (now.state !== 'linked' && now.state !== 'outdated') return
    await remove(now.file)
  }

  async #folders(): Promise<string[]> {
    const all = (await this.#options.pathVariable()).split(path.delimiter)
    return [...new Set(all.filter((folder) => path.isAbsolute(folder)))]
  }

  /** The first folder of the PATH where people put their own commands; a missing one below the home folder is created. */
  async #firstWritable(command: string): Promise<string> {
    const { homeDir } = this.#options
    const own = ['.local/bin', 'bin'].map((folder) => path.join(homeDir, folder))
    const usual = ['/usr/local/bin', '/opt/homebrew/bin', ...own]
    const folders = await this.#folders()
    const others = folders.filter((folder) => folder.startsWith(`${homeDir}/`) && !usual.includes(folder))
    for (const folder of [...usual, ...others].filter((one) => folders.includes(one))) {
      if (own.includes(folder)) await mkdir(folder, { recursive: true }).catch(() => undefined)
      if (await mayWrite(folder)) return folder
    }
    const linkLine = `sudo mkdir -p /usr/local/bin && sudo ln -s ${shellWord(command)} /usr/local/bin/${name}`
    throw new LinkError('refused', words.noFolder(linkLine))
  }
}

async function lookAt(file: string, command: string): Promise<CommandLinkState> {
  try {
    const target = path.resolve(path.dirname(file), await readlink(file))
    if (target === command) return { state: 'linked', file }
    return insideAnApp.test(target) ? { state: 'outdated', file, target } : { state: 'foreign', file }
  } catch (error) {
    // EINVAL: it is no link.
    return hasCode(error, 'EINVAL') ? { state: 'foreign', file } : { state: 'absent' }
  }
}

async function make(command: string, file: string): Promise<string> {
  try {
    await symlink(command, file)
    return file
  } catch (error) {
    throw new LinkError('refused', words.notMade(file, messageOf(error)), { cause: error })
  }
}

const remove = (file: string) =>
  rm(file).catch((error: unknown) => {
    throw new LinkError('refused', words.notRemoved(file, messageOf(error)), { cause: error })
  })

const isThere = (file: string) =>
  stat(file).then(
    (found) => found.isFile(),
    () => false,
  )

const mayWrite = (folder: string) =>
  access(folder, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
