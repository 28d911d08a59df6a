import { skipWhen } from '../skip.ts'
import { findElectron } from './find-electron.ts'

const found = findElectron()
skipWhen('missing' in found ? found.missing : undefined)
