import path from 'node:path'
import type { ShellStart } from '../shell-process.ts'
import type { ElectronProgram } from './find-electron.ts'

const root = path.join(import.meta.dirname, '../../..')

/** What Playwright is told. */
export interface LaunchPlan {
  readonly executablePath: string
  readonly args: string[]
  readonly cwd: string
  readonly env: Record<string, string>
}

/**
 * Electron alone is told what to load first and which app; of a packed one Electron reads neither, so that the package for tests loads the
 * hook by itself (`packed-main.js`). Playwright adds the ports of both debuggers, which a release opens to nobody.
 */
export const launchPlan = ({ folder, env }: ShellStart, electron: ElectronProgram, display = ''): LaunchPlan => ({
  executablePath: electron.path,
  args: electron.isPacked ? [] : ['-r', path.join(import.meta.dirname, 'hook.cjs'), root],
  cwd: folder,
  env: {
    ...env,
    DISPLAY: display,
    // By which macOS finds it.
    CFFIXED_USER_HOME: env['HOME'] ?? '',
    METALBAR_TEST_HOME: folder,
  },
})
