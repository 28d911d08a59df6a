import { copyFile, mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'

const root = join(import.meta.dirname, '..')

/**
 * Builds the command and lays it out in `folder` as `make build` does here: the launcher with its bundle. An agent that
 * runs from `out/` meanwhile is not disturbed. Answers the launcher. Another `entry` in place of the command's runs with
 * the same options of Node.js and bundled in the same way.
 */
export async function installAgent(folder: string, { entry }: { entry?: string } = {}): Promise<string> {
  const launcher = join(folder, 'bin/metal-agent')
  await mkdir(join(folder, 'bin'), { recursive: true })
  await copyFile(join(root, 'bin/metal-agent'), launcher)
  // It says that files are modules, which Node.js otherwise finds out by reading each twice.
  await copyFile(join(root, 'package.json'), join(folder, 'package.json'))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  const other = entry === undefined ? [] : ['--ssr', entry]
  await execa('vite', ['build', '--logLevel', 'warn', '--outDir', join(folder, 'out/cli'), ...other], {
    cwd: root,
    preferLocal: true,
    localDir: root,
    all: true,
  })
  return launcher
}
