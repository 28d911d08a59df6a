import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

const electronFolder = path.join(import.meta.dirname, '../../../node_modules/electron')

/** Set for the tests that run on Electron itself. */
export const isOnElectron = process.env['METALBAR_TEST_SHELL'] === 'electron'

/** By `ELECTRON_PATH`, or where npm has put it; importing the package would have it downloaded. */
export function findElectron(): { readonly path: string } | { readonly missing: string } {
  const named = process.env['ELECTRON_PATH']
  if (named !== undefined && named !== '') {
    return existsSync(named) ? { path: named } : { missing: `ELECTRON_PATH names ${named}, which is not there` }
  }
  const pathFile = path.join(electronFolder, 'path.txt')
  const installed = existsSync(pathFile) ? path.join(electronFolder, 'dist', readFileSync(pathFile, 'utf8')) : ''
  if (existsSync(installed)) return { path: installed }
  return { missing: 'there is no Electron: `npx install-electron` downloads it, or ELECTRON_PATH names one' }
}

/** Throws where there is none. */
export function electronPath(): string {
  const found = findElectron()
  if ('missing' in found) throw new Error(found.missing)
  return found.path
}
