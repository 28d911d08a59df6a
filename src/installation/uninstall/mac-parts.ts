import { readlink } from 'node:fs/promises'
import path from 'node:path'
import { fragmentFile } from '../../agent-core/power/sudoers.ts'
import { shellCommand } from '../../contract/shell.ts'
import { askSystem, type InstallationHost } from '../installation-host.ts'
import { bytesOf, lookAt, namesIn, removeAll, removeByHand } from './own-files.ts'
import { bundleId, insideAnApp, keychainService, macHomeRows } from './trace-table.ts'
import { UninstallError, type TracePart } from './trace-part.ts'

/** Runs a command line as root, after the person gave a password; answers its exit code. */
export type AsRoot = (words: readonly string[]) => Promise<number>

/** `security` answers it where the keychain has no such item: errSecItemNotFound. */
const noSuchItem = 44

/** The key that encrypts the token. Whether it is there is asked without reading it, so that macOS asks nobody. */
export function keychainPart(host: InstallationHost): TracePart {
  const item = ['-s', keychainService]
  return {
    kind: 'keychain',
    look: async () => {
      const { exitCode, stderr } = await askSystem(host, 'security', ['find-generic-password', ...item])
      if (exitCode === noSuchItem) return undefined
      if (exitCode !== 0)
        throw new UninstallError(`The keychain does not answer: ${stderr.trim() || `code ${exitCode}`}.`)
      const byHand = [shellCommand(['security', 'delete-generic-password', ...item])]
      return { places: [{ path: keychainService }], byHand }
    },
    remove: async () => {
      const { exitCode, stderr } = await askSystem(host, 'security', ['delete-generic-password', ...item])
      if (exitCode !== 0 && exitCode !== noSuchItem) throw new UninstallError(`The keychain says: ${stderr.trim()}`)
    },
  }
}

/** Which macOS keeps in memory too, so that it is asked and no file is deleted behind its back. */
export function macPreferencesPart(host: InstallationHost): TracePart {
  const domain = path.join(host.user.homeDir, 'Library/Preferences', `${bundleId}.plist`)
  const has = async () => (await askSystem(host, 'defaults', ['read', bundleId])).exitCode === 0
  const perHost = async () => {
    const found = macHomeRows
      .filter(({ kind }) => kind === 'macPreferences')
      .map(async ({ folder, name: isOurs }) => {
        const names = await namesIn(path.join(host.user.homeDir, folder))
        return names.filter((name) => isOurs.test(name)).map((name) => path.join(host.user.homeDir, folder, name))
      })
    return (await Promise.all(found)).flat()
  }
  return {
    kind: 'macPreferences',
    look: async () => {
      const files = [...((await has()) ? [domain] : []), ...(await perHost())]
      const places = files.map(async (file) => ({ path: file, bytes: await bytesOf(file) }))
      const byHand = [shellCommand(['defaults', 'delete', bundleId])]
      return files.length === 0 ? undefined : { places: await Promise.all(places), byHand }
    },
    remove: async () => {
      if (await has()) {
        const { exitCode, stderr } = await askSystem(host, 'defaults', ['delete', bundleId])
        if (exitCode !== 0) throw new UninstallError(`defaults says: ${stderr.trim()}`)
      }
      await removeAll(await perHost())
    },
  }
}

/** Only root may write there; rules of other users are named. */
export function sudoRulePart({ user, systemRoot }: InstallationHost, asRoot: AsRoot | undefined): TracePart {
  const inRoot = (file: string) => path.join(systemRoot, file)
  const file = inRoot(fragmentFile(user))
  const look = async () => {
    const folder = path.dirname(file)
    const others = (await namesIn(folder)).filter(
      (name) => name.startsWith('metalbar-powermetrics-') && name !== path.basename(file),
    )
    const isThere = (await lookAt(file)) !== undefined
    if (!isThere && others.length === 0) return undefined
    return {
      places: isThere ? [{ path: file }] : [],
      stays: others.map(
        (name) =>
          `${path.join(folder, name)} is the rule of another user: ${shellCommand(['sudo', 'rm', path.join(folder, name)])}`,
      ),
      byHand: [shellCommand(['sudo', 'rm', '-f', file])],
    }
  }
  return {
    kind: 'sudoRule',
    look,
    remove: async () => {
      if (asRoot === undefined) throw new UninstallError('Only root may remove it')
      const code = await asRoot(['/bin/rm', '-f', file])
      if (code !== 0) throw new UninstallError(`sudo ended with exit code ${code}`)
    },
  }
}

/** Folders for commands, in the PATH or not. */
const usualFolders = ['/usr/local/bin', '/opt/homebrew/bin']

/** Links into an app, which only the app makes; a `metal-agent` that is anything else belongs to who put it there. */
export function commandLinkPart({ env, user, systemRoot }: InstallationHost): TracePart {
  const inPath = (env['PATH'] ?? '').split(path.delimiter).filter((folder) => path.isAbsolute(folder))
  const own = ['.local/bin', 'bin'].map((folder) => path.join(user.homeDir, folder))
  const folders = [...new Set([...inPath, ...usualFolders.map((folder) => path.join(systemRoot, folder)), ...own])]
  const links = async () => {
    const found = folders.map(async (folder) => {
      const file = path.join(folder, 'metal-agent')
      if ((await lookAt(file))?.isSymbolicLink() !== true) return []
      return insideAnApp.test(path.resolve(folder, await readlink(file))) ? [file] : []
    })
    return (await Promise.all(found)).flat()
  }
  return {
    kind: 'commandLink',
    look: async () => {
      const files = await links()
      if (files.length === 0) return undefined
      return { places: files.map((file) => ({ path: file })), byHand: removeByHand(files, true) }
    },
    remove: async () => removeAll(await links()),
  }
}
