import type { TestProject } from 'vitest/node'
import { controlPlanePart } from '../../../tasks/setup/control-plane.ts'
import type { ClusterConnection } from './admin-client.ts'
import { ApiServer } from './api-server.ts'

/** What every test of the run is told: how the shared API server is reached, or why there is none. */
export type SharedControlPlane =
  | { readonly connection: ClusterConnection }
  /** In one sentence, with what to do. */
  | { readonly missing: string }

declare module 'vitest' {
  interface ProvidedContext {
    controlPlane: SharedControlPlane
  }
}

/** One API server for all projects of a run that ask for it. Vitest loads this module once per project, hence the global. */
const shared: { users: number; server?: Promise<ApiServer> } = ((globalThis as SharedGlobal)[
  Symbol.for('metalbar.control-plane')
] ??= { users: 0 })

interface SharedGlobal {
  [key: symbol]: { users: number; server?: Promise<ApiServer> } | undefined
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const found = controlPlanePart.find()
  if (!found.found) {
    project.provide('controlPlane', { missing: found.reason })
    return () => Promise.resolve()
  }
  shared.users += 1
  shared.server ??= ApiServer.start()
  const server = await shared.server
  project.provide('controlPlane', { connection: server.connection })
  return async () => {
    shared.users -= 1
    if (shared.users === 0) await server[Symbol.asyncDispose]()
  }
}
