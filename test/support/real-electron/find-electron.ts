import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

const electronFolder = path.join(import.meta.dirname, '../../../node_modules/electron')

/** Set for the tests that run on Electron itself. */
export const isOnElectron = process.env['METALBAR_TEST_SHELL'] === 'electron'

/** A program that is driven as Electron is. */
export interface ElectronProgram {
  readonly path: string
  /** It is that of a packed app, which it runs; else it runs the build that it is given. */
  readonly isPacked: boolean
}

/** By `ELECTRON_PATH`, or where npm has put it; importing the package would have it downloaded. Throws where the named one is not there. */
export function findElectron(): ElectronProgram | { readonly missing: string } {
  const named = process.env['ELECTRON_PATH']
  if (named !== undefined && named !== '') {
    if (!existsSync(named)) throw new Error(`ELECTRON_PATH names ${named}, which is not there.`)
    return electronAt(path.resolve(named))
  }
  const pathFile = path.join(electronFolder, 'path.txt')
  const installed = existsSync(pathFile) ? path.join(electronFolder, 'dist', readFileSync(pathFile, 'utf8')) : ''
  if (existsSync(installed)) return electronAt(installed)
  return { missing: 'there is no Electron: `npx install-electron` downloads it, or ELECTRON_PATH names one' }
}

/** A bundle of macOS has its app beside the folder of the program, one of Linux below it. */
export const electronAt = (program: string): ElectronProgram => ({
  path: program,
  isPacked: ['../Resources/app.asar', 'resources/app.asar'].some((archive) =>
    existsSync(path.join(path.dirname(program), archive)),
  ),
})

/** Whether the app that is driven counts as one that is installed, which has more in its menu. */
export function isDrivenPacked(): boolean {
  const found = isOnElectron ? findElectron() : undefined
  return found !== undefined && 'path' in found && found.isPacked
}

/** Throws where there is none. */
export function electronProgram(): ElectronProgram {
  const found = findElectron()
  if ('missing' in found) throw new Error(found.missing)
  return found
}
