import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { InstallationHost } from '../../src/installation/installation-host.ts'
import { allParts, type AllPartsOptions } from '../../src/installation/uninstall/uninstall.ts'
import { hasCode } from '../../src/agent-core/util/files.ts'
import { temporaryFolder } from './temporary-folder.ts'

export interface UninstallWorldOptions {
  readonly platform?: 'darwin' | 'linux'
}

/** Answers of a program of macOS: a line of shell for each, by which its arguments are judged. */
type Programs = Readonly<Record<string, string>>

/** A home folder, the root of a system and programs that write down how they were called; all in one temporary folder. */
export async function uninstallWorld({ platform = 'linux' }: UninstallWorldOptions = {}) {
  const folder = await temporaryFolder()
  const at = (...names: string[]) => path.join(folder.dir, ...names)
  const home = at('home')
  const stateDir = path.join(
    home,
    platform === 'darwin' ? 'Library/Application Support/Metalbar' : '.local/state/metalbar',
  )
  const write = async (file: string, content = file): Promise<string> => {
    await mkdir(path.dirname(file), { recursive: true })
    await writeFile(file, content)
    return file
  }
  await mkdir(at('bin'), { recursive: true })
  const calls = at('calls')
  const programs = async (answers: Programs): Promise<void> => {
    for (const [name, script] of Object.entries(answers)) {
      const file = await write(at('bin', name), `#!/bin/sh\necho "${name} $*" >> '${calls}'\n${script}\n`)
      await chmod(file, 0o755)
    }
  }
  const host: InstallationHost = {
    platform,
    env: { HOME: home, PATH: [at('bin'), path.join(home, '.local/bin')].join(path.delimiter) },
    isRoot: false,
    systemRoot: at('root'),
    programFolders: [at('bin')],
    user: { name: 'anna', id: process.getuid?.() ?? 0, groupId: process.getgid?.() ?? 0, homeDir: home },
  }
  const parts = (options: Partial<AllPartsOptions> = {}) =>
    allParts({ host, platform: hostPlatform(), stateDir, temporaryDir: at('tmp'), ...options })
  const called = async (): Promise<string[]> => {
    try {
      return (await readFile(calls, 'utf8')).trim().split('\n')
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return []
      throw error
    }
  }
  return {
    at,
    home,
    stateDir,
    host,
    write,
    programs,
    parts,
    called,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  }
}
