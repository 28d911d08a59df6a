import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

const root = path.join(import.meta.dirname, '../../..')
const vite = path.join(root, 'node_modules/vite/bin/vite.js')

/** The tests run the app as it is shipped, so it is built first; apart from Vitest, whose NODE_ENV would build another one. */
export default async function setup(): Promise<void> {
  for (const part of ['renderer', 'main', 'preload']) {
    await promisify(execFile)(process.execPath, [vite, 'build', '--config', `vite.${part}.config.ts`], {
      cwd: root,
      env: { ...process.env, NODE_ENV: 'production' },
    })
  }
}
