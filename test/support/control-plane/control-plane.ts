import { afterAll, beforeAll, beforeEach, inject } from 'vitest'
import { TestCluster } from './test-cluster.ts'

export { ApiServer } from './api-server.ts'
export { TestCluster } from './test-cluster.ts'

/**
 * Gives the test file a namespace of its own on the run's shared API server. Call it once at the file's top level, and
 * the returned function in tests and hooks. Where there is no API server the file's tests are skipped with the reason.
 */
export function useControlPlane(): () => TestCluster {
  const controlPlane = inject('controlPlane')
  let cluster: TestCluster | undefined
  beforeAll(async () => {
    if ('connection' in controlPlane) cluster = await TestCluster.open(controlPlane.connection)
  })
  beforeEach((context) => {
    if ('missing' in controlPlane) context.skip(controlPlane.missing)
  })
  afterAll(async () => {
    await cluster?.[Symbol.asyncDispose]()
  })
  return () => {
    if (cluster !== undefined) return cluster
    throw new Error('missing' in controlPlane ? controlPlane.missing : 'The cluster is ready from beforeAll on.')
  }
}
