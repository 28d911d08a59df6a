import type { TestProject } from 'vitest/node'
import { temporaryFolder } from '../temporary-folder.ts'
import { buildWindow } from './build-window.ts'
import { serveWindow } from './serve-window.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the built window is. */
    windowFolder: string
    /** Where it is served, with no agent behind it. */
    windowOrigin: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await using parts = new AsyncDisposableStack()
  const { dir } = parts.use(await temporaryFolder())
  await buildWindow(dir)
  const { origin } = parts.use(await serveWindow(dir))
  project.provide('windowFolder', dir)
  project.provide('windowOrigin', origin)
  const owned = parts.move()
  return () => owned.disposeAsync()
}
