import { join } from 'node:path'
import { build, type Plugin } from 'vite'

const root = join(import.meta.dirname, '../../..')

/** The window as it is shipped, but for what `plugins` change, into a folder of its own. */
export async function buildWindow(folder: string, plugins: Plugin[] = []): Promise<void> {
  await build({
    configFile: join(root, 'vite.renderer.config.ts'),
    logLevel: 'warn',
    plugins,
    build: { outDir: folder, emptyOutDir: true },
  })
}
