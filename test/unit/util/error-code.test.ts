import { expect, test } from 'vitest'
import { ApiError } from '../../../src/agent-core/kube/api-error.ts'
import { resources } from '../../../src/agent-core/kube/resources.ts'
import { explainFailure } from '../../../src/agent-core/kube/list-watch.ts'
import { storeError } from '../../../src/agent-core/models/store/files.ts'
import { ownFailure } from '../../../src/agent-core/util/error-code.ts'

const failing = (code: string) => new Error('it failed', { cause: Object.assign(new Error('no'), { code }) })

test.each(['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE', 'ENOENT'])(
  '%s may be the fault of the other side',
  (code) => {
    expect(ownFailure(failing(code))).toBeUndefined()
  },
)

test('what this machine lacks is not told as the silence of a cluster, or as damage of the store', async () => {
  const error = new ApiError('GET /api: connect EMFILE', { cause: failing('EMFILE') })
  const why = 'this agent has reached the limit of open files and connections for one process (EMFILE)'
  expect(explainFailure('stale', resources.models, 'https://mac.test:6443', error)).toBe(
    `The agent cannot ask the cluster at https://mac.test:6443: ${why}. Running models keep serving, and the agent keeps trying.`,
  )
  expect((await storeError(failing('ENFILE'), '/store')).message).toBe(
    'The model store /store cannot be looked at (the system has reached its limit of open files and connections (ENFILE)): the agent tries again.',
  )
})
