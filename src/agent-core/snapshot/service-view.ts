import type { CrashView, ServiceFigures, ServiceView } from '../../contract/service.ts'
import type { Exited } from '../process/server-state.ts'
import type { ServiceReport } from '../reconcile/reconciler.ts'
import { stepsOf } from './steps.ts'

/** What the reconciler knows of one service, as a person is shown it. */
export function serviceViewOf(report: ServiceReport): Omit<ServiceView, 'revision'> {
  const { record, plan, observed, server, service, model } = report
  const { shown, claim } = observed.publication
  const alive = server && 'pid' in server && server.kind !== 'stopping' ? server : undefined
  return {
    namespace: record.namespace,
    name: record.name,
    uid: uidOf(report),
    state: plan.state,
    reason: plan.reason,
    message: plan.message,
    steps: stepsOf(observed, service, model, alive?.pid !== undefined),
    since: new Date(report.since).toISOString(),
    ...(plan.retryAt !== undefined && { retryAt: new Date(plan.retryAt).toISOString() }),
    model: service?.spec.ok === true ? service.spec.value.modelRef : '',
    runtime: 'llama-server',
    ...(alive?.pid !== undefined && { pid: alive.pid }),
    ...(alive?.port !== undefined && { port: alive.port }),
    ...(shown !== undefined && claim === 'ours' && { address: shown.address }),
    ...(record.digest !== undefined && { logFile: report.logFile }),
    restarts: record.restarts,
    ...(report.hold && { hold: report.hold }),
    ...(report.lastFailure && { crash: crashOf(report.lastFailure, report.failures) }),
  }
}

function crashOf({ since, code, signal, message, firstError, memory }: Exited, failures: number): CrashView {
  return {
    at: new Date(since).toISOString(),
    failures,
    message,
    ...(code !== null && { exitCode: code }),
    ...(signal !== null && { signal }),
    ...(firstError !== undefined && { firstError }),
    ...(memory && { memory }),
  }
}

/** By uid: what changes all the time. */
export function figuresOf(reports: readonly ServiceReport[]): Record<string, ServiceFigures> {
  const known = reports.flatMap((report) => {
    const progress = report.record.fetch?.progress
    const stopping = [report.server, report.retiring].find((state) => state?.kind === 'stopping')
    const drain = stopping?.kind === 'stopping' ? stopping.drain : undefined
    if (progress === undefined && drain === undefined) return []
    const figures = { ...(progress && { progress }), ...(drain && { requestsInFlight: drain.requestsInFlight }) }
    return [[uidOf(report), figures] as const]
  })
  return Object.fromEntries(known)
}

const uidOf = ({ record }: ServiceReport): string => record.metadata?.uid ?? record.key
