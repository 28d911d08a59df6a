import { existsSync } from 'node:fs'
import path from 'node:path'
import { build } from 'vite'

const root = path.join(import.meta.dirname, '../../..')

/** The tests run the app as it is shipped, so it is built first. */
export default async function setup(): Promise<void> {
  for (const name of ['vite.main.config.ts', 'vite.preload.config.ts', 'vite.renderer.config.ts']) {
    const configFile = path.join(root, name)
    if (existsSync(configFile)) await build({ configFile, logLevel: 'warn' })
  }
}
