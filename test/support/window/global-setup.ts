import type { TestProject } from 'vitest/node'
import { buildApp, builtWindow } from '../built-app/build-app.ts'
import { serveWindow } from './serve-window.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Where the built window is served, with no agent behind it. */
    windowOrigin: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await buildApp('renderer')
  const served = await serveWindow(builtWindow)
  project.provide('windowOrigin', served.origin)
  return async () => {
    await served[Symbol.asyncDispose]()
  }
}
