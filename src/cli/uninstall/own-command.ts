import { access } from 'node:fs/promises'
import path from 'node:path'
import { isSelfContained } from '../../agent-core/util/embedded.ts'
import { shellCommand } from '../../contract/shell.ts'
import { insideAnApp } from '../../installation/uninstall/trace-table.ts'
import type { CliIo } from '../io.ts'

/** What a program cannot remove of itself, each as a sentence or line. */
export async function whatIsLeftToDo({ platform, homeDir }: CliIo): Promise<string[]> {
  const apps = platform === 'darwin' ? ['/Applications', path.join(homeDir, 'Applications')] : []
  const found = apps.map(async (folder) => {
    const app = path.join(folder, 'Metalbar.app')
    return await access(app).then(
      () => [`Move ${app} to the Trash; macOS then opens nothing of it at login any more.`],
      () => [],
    )
  })
  return [...(await Promise.all(found)).flat(), ...ownCommand()]
}

function ownCommand(): string[] {
  const script = process.argv[1] ?? ''
  if (isSelfContained()) {
    return insideAnApp.test(process.execPath) ? [] : [`The command itself: ${shellCommand(['rm', process.execPath])}`]
  }
  return /\/node_modules\/metalbar\//.test(script) ? ['The command itself: npm uninstall --global metalbar'] : []
}
