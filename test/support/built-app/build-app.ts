import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

const root = path.join(import.meta.dirname, '../../..')
const vite = path.join(root, 'node_modules/vite/bin/vite.js')

/** Where the window is, once it is built. */
export const builtWindow = path.join(root, 'out/renderer')

/** Builds these parts of the app as they are shipped, each once for all projects of a run; apart from Vitest, whose NODE_ENV would build others. */
export async function buildApp(...parts: ('renderer' | 'main' | 'preload')[]): Promise<void> {
  for (const part of parts) {
    const variable = `METALBAR_TEST_BUILT_${part.toUpperCase()}`
    if (process.env[variable] !== undefined) continue
    await promisify(execFile)(process.execPath, [vite, 'build', '--config', `vite.${part}.config.ts`], {
      cwd: root,
      env: { ...process.env, NODE_ENV: 'production' },
    })
    process.env[variable] = 'yes'
  }
}
