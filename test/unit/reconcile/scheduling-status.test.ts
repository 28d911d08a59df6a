import { expect, test } from 'vitest'
import { failure } from '../../../src/agent-core/reconcile/model-fetch.ts'
import { ModelError } from '../../../src/agent-core/models/errors.ts'
import type { FetchView } from '../../../src/agent-core/reconcile/plan/observation.ts'
import { schedulingStatusOf } from '../../../src/agent-core/reconcile/status-report.ts'
import type { ServiceReason } from '../../../src/contract/service.ts'

const none: FetchView = { kind: 'none' }
const failed = (error: ModelError): FetchView => {
  const outcome = failure(error, '')
  if (outcome.kind !== 'failed') throw new Error('It did not fail.')
  return { ...outcome, source: 's', retryAt: undefined }
}

test.each<[ServiceReason, FetchView, string | undefined]>([
  ['InsufficientMemory', none, 'InsufficientMemory'],
  ['MemoryCheckFailed', none, 'MemoryCheckFailed'],
  ['ExtraArgsRejected', none, 'ExtraArgsRejected'],
  ['ServiceNameTaken', none, 'EndpointNameConflict'],
  ['ServiceNameTooLong', none, 'ServiceNameTooLong'],
  ['FetchFailed', failed(ModelError.terminal('ModelSourceNotAllowed', 'No.')), 'ModelSourceNotAllowed'],
  ['FetchFailed', failed(ModelError.terminal('ChecksumMismatch', 'No.')), 'ModelDigestMismatch'],
  ['FetchFailed', failed(ModelError.terminal('Truncated', 'No.')), undefined],
  ['FetchFailed', none, undefined],
  ['CrashLooping', none, undefined],
])("what LLMKube 0.10's controller keeps of %s", (reason, fetch, expected) => {
  expect(schedulingStatusOf({ reason }, { fetch })).toBe(expected)
})
