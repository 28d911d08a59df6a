import { join } from 'node:path'
import { build } from 'vite'

const root = join(import.meta.dirname, '../../..')

/** The window as it is shipped, into a folder of its own. */
export async function buildWindow(folder: string): Promise<void> {
  await build({
    configFile: join(root, 'vite.renderer.config.ts'),
    logLevel: 'warn',
    build: { outDir: folder, emptyOutDir: true },
  })
}
