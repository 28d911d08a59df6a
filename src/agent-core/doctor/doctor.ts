import type { DoorState } from '../gateway/doors.ts'
import { ApiError, isApiError } from '../kube/api-error.ts'
import { KubeApi } from '../kube/kube-api.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import type { Platform } from '../platform/platform.ts'
import type { HostAddress } from '../publishing/host-address.ts'
import type { AgentSettings } from '../settings/settings.ts'
import { messageOf } from '../util/message-of.ts'
import { sentence } from '../../contract/clean-text.ts'
import type { DoctorAction, DoctorFinding, DoctorReport, DoctorSubject, Verdict } from '../../contract/doctor.ts'
import type { IngressCode } from '../../contract/gateway.ts'
import type { PowerRuleView } from '../../contract/power.ts'
import type { RuntimeView } from '../../contract/queries.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'

/** All questions are asked at the same time, so that a report takes no longer than one of them may. */
const answerLimitMs = 8_000
const maxSaysBytes = 1_000

/** The machine, and the agent on it, that is looked at. */
export interface Patient {
  readonly platform: Platform
  readonly env: Readonly<Record<string, string | undefined>>
  readonly settings: Pick<
    AgentSettings,
    | 'namespace'
    | 'modelStore'
    | 'stateDir'
    | 'hubTokenFile'
    | 'metricsTokenFile'
    | 'port'
    | 'clientPort'
    | 'ingressPort'
    | 'publish'
    | 'listen'
    | 'sleepPolicy'
    | 'applePowerEnabled'
  >
  /** The one that is served, or would be. Throws KubeconfigError. */
  readonly context: () => Promise<PinnedContext>
  readonly runtimes: () => Promise<readonly RuntimeView[]>
  readonly powerRule: () => Promise<PowerRuleView>
  readonly hostAddress: () => Promise<HostAddress>
  /** Whether the process is the gateway of this agent, or one that an earlier agent of the same state folder left. */
  readonly isOwnGateway: (pid: number) => Promise<boolean>
  /** Undefined where no agent runs. */
  readonly agent: RunningAgent | undefined
}

/** What is known of the ingress for relays, whether or not a service is published for them. */
interface IngressFacts {
  readonly port: number
  readonly state: DoorState
  /** Why services that are published for relays are not reached by any, as sentences. */
  readonly notice: string | undefined
  /** Why relays of the namespace are not let in, as a sentence. */
  readonly tokenProblem: (namespace: string) => string | undefined
  /** How often it answered so since the gateway started; undefined where it does not tell. */
  readonly answers: () => Promise<Partial<Record<IngressCode, number>> | undefined>
}

export interface RunningAgent {
  readonly snapshot: AgentSnapshot
  /** All that agents publish, as the cluster was last heard to have it; empty while there is none. */
  readonly slices: readonly EndpointSlice[]
  /** The API server's time, in milliseconds. */
  readonly serverNow: number
  readonly ingress: IngressFacts
  /** Why the Lease of this machine is not as it should be. */
  readonly leaseNotice: string | undefined
}

export interface Finding {
  readonly verdict: Verdict
  readonly says: string
  readonly action?: DoctorAction | undefined
}

/** One question. Whatever its answer throws is a question that could not be asked. */
export interface Check {
  readonly id: string
  readonly asks: string
  readonly page: string
  readonly answer: (examination: Examination) => Promise<Finding> | Finding
}

export const pass = (says: string): Finding => ({ verdict: 'pass', says })
export const warn = (says: string, action?: DoctorAction): Finding => ({ verdict: 'warn', says, action })
export const fail = (says: string, action?: DoctorAction): Finding => ({ verdict: 'fail', says, action })
export const notApplicable = (says: string): Finding => ({ verdict: 'notApplicable', says })

/** What the API server said when it was asked who it is. */
export interface Greeting {
  readonly api: KubeApi
  /** Undefined where it does not tell it. */
  readonly version: string | undefined
  readonly tookMs: number
}

/** One look at a patient: what several questions need is asked once. */
export class Examination {
  readonly patient: Patient
  readonly signal: AbortSignal
  /** Rejects with KubeconfigError. */
  readonly context: () => Promise<PinnedContext>
  /** Rejects with KubeconfigError, or ApiError where it does not answer. */
  readonly greeting: () => Promise<Greeting>
  readonly runtimes: () => Promise<readonly RuntimeView[]>

  constructor(patient: Patient, signal: AbortSignal) {
    this.patient = patient
    this.signal = signal
    this.context = once(() => patient.context())
    this.runtimes = once(() => patient.runtimes())
    this.greeting = once(async () => {
      const api = new KubeApi(await this.context())
      const begun = performance.now()
      const version = await withinGreeting(api.version(signal)).catch((error: unknown) => {
        // It may keep its version to itself, or be busy: it is an API server that says so.
        if (isApiError(error, 403, 429, 503) && error.reason !== '') return undefined
        throw error
      })
      return { api, version, tookMs: performance.now() - begun }
    })
  }
}

/** Shorter than a question may take, so that what depends on it does not apply in place of being late. */
const greetingLimitMs = 5_000

/** undici ends no connection that is being made before its own time limit, whatever its signal says. */
async function withinGreeting<T>(asked: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    late.reject(new ApiError(`there was no answer within ${greetingLimitMs / 1_000} s`, {}))
  }, greetingLimitMs)
  asked.catch(() => undefined)
  try {
    return await Promise.race([asked, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | undefined
  return () => (asked ??= ask())
}

interface ExamineOptions {
  readonly signal?: AbortSignal | undefined
  readonly limitMs?: number
}

/** Asks all questions at the same time, each for as long as the limit; changes nothing. */
export async function examine(
  patient: Patient,
  checks: readonly (readonly [DoctorSubject, readonly Check[]])[],
  { signal, limitMs = answerLimitMs }: ExamineOptions = {},
): Promise<DoctorReport> {
  const begun = performance.now()
  const limit = AbortSignal.timeout(limitMs)
  const examination = new Examination(patient, signal ? AbortSignal.any([signal, limit]) : limit)
  const findings = checks.flatMap(([subject, questions]) =>
    questions.map(async ({ id, asks, page, answer }): Promise<DoctorFinding> => {
      const { verdict, says, action } = await bounded(examination, answer, limitMs)
      return { id, subject, asks, verdict, says: sentence(says, maxSaysBytes), ...(action && { action }), page }
    }),
  )
  return { findings: await Promise.all(findings), tookMs: performance.now() - begun }
}

async function bounded(examination: Examination, answer: Check['answer'], limitMs: number): Promise<Finding> {
  const late = Promise.withResolvers<Finding>()
  const timer = setTimeout(
    () => late.resolve(warn(`There was no answer within ${Math.round(limitMs / 1_000)} s.`)),
    limitMs,
  )
  const asked = async () => answer(examination)
  const failed = (error: unknown) => warn(`This check could not run: ${messageOf(error)}.`)
  try {
    return await Promise.race([asked().catch(failed), late.promise])
  } finally {
    clearTimeout(timer)
  }
}
