import type { TestProject } from 'vitest/node'
import { temporaryFolder } from '../temporary-folder.ts'
import { buildWindow } from './build-window.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the built window is. */
    windowFolder: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await temporaryFolder()
  await buildWindow(folder.dir)
  project.provide('windowFolder', folder.dir)
  return async () => {
    await folder[Symbol.asyncDispose]()
  }
}
