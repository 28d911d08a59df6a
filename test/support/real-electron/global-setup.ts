import { buildApp } from '../built-app/build-app.ts'
import { findElectron } from './find-electron.ts'

export default async function setup(): Promise<void> {
  const found = findElectron()
  // A packed app has its own.
  if ('path' in found && !found.isPacked) await buildApp('renderer', 'main', 'preload')
}
