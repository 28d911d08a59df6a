import type { LastFailure, ServiceView } from '../../contract/service.ts'
import type { Exited } from '../process/server-state.ts'
import type { ServiceReport } from '../reconcile/reconciler.ts'
import { stepsOf } from './steps.ts'

/** What the reconciler knows of one service, as a person is shown it. */
export function serviceViewOf(report: ServiceReport): Omit<ServiceView, 'revision'> {
  const { record, plan, observed, server, service, model } = report
  const { shown, claim } = observed.publication
  const progress = record.fetch?.progress
  const alive = server && 'pid' in server && server.kind !== 'stopping' ? server : undefined
  return {
    namespace: record.namespace,
    name: record.name,
    uid: record.metadata?.uid ?? record.key,
    state: plan.state,
    reason: plan.reason,
    message: plan.message,
    steps: stepsOf(observed, service, model, alive?.pid !== undefined),
    since: new Date(report.since).toISOString(),
    ...(plan.retryAt !== undefined && { retryAt: new Date(plan.retryAt).toISOString() }),
    model: service?.spec.ok === true ? service.spec.value.modelRef : '',
    runtime: 'llama-server',
    ...(progress !== undefined && { progress }),
    ...(alive?.pid !== undefined && { pid: alive.pid }),
    ...(alive?.port !== undefined && { port: alive.port }),
    ...(shown !== undefined && claim === 'ours' && { address: shown.address }),
    ...(record.digest !== undefined && { logFile: report.logFile }),
    restarts: record.restarts,
    ...(report.lastFailure && { lastFailure: lastFailureOf(report.lastFailure) }),
  }
}

const lastFailureOf = ({ since, code, signal, message, firstError, memory }: Exited): LastFailure => ({
  at: new Date(since).toISOString(),
  ...(code !== null && { code }),
  ...(signal !== null && { signal }),
  message,
  ...(firstError !== undefined && { firstError }),
  ...(memory && { memory }),
})
