import { DarwinPlatform } from './darwin.ts'
import { LinuxPlatform } from './linux.ts'
import { PlatformError, type Platform } from './platform.ts'

/** The implementation for the machine we run on. Throws PlatformError on a system that is neither macOS nor Linux. */
export function hostPlatform(systemName: NodeJS.Platform = process.platform): Platform {
  switch (systemName) {
    case 'darwin':
      return new DarwinPlatform()
    case 'linux':
      return new LinuxPlatform()
    default:
      throw new PlatformError(`This agent runs on macOS and Linux, not on ${systemName}.`)
  }
}
