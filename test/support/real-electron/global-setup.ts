import buildApp from '../electron-stand-in/global-setup.ts'
import { findElectron } from './find-electron.ts'

export default async function setup(): Promise<void> {
  if ('path' in findElectron()) await buildApp()
}
