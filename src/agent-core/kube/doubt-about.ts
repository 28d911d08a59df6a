import { within } from '../util/within.ts'
import { isApiError, rootMessage } from './api-error.ts'
import { KubeApi } from './kube-api.ts'
import type { PinnedContext } from './pinned-context.ts'
import { explainAbsence } from './preflight.ts'
import { resources } from './resources.ts'

/** A person waits for it, and what runs for the present cluster is not touched before it answered. */
const answerLimitMs = 5_000
/** Then what is missing is only named less exactly. */
const explainLimitMs = 1_000

export interface DoubtOptions {
  /** Absent = all namespaces. */
  readonly namespace: string | undefined
  readonly limitMs?: number
}

/** Why nothing could be served in the cluster of this context, as a sentence; undefined where it answers and has LLMKube's kinds. */
export async function doubtAbout(
  context: PinnedContext,
  { namespace, limitMs = answerLimitMs }: DoubtOptions,
): Promise<string | undefined> {
  const api = new KubeApi(context)
  const signal = AbortSignal.timeout(limitMs)
  const silent = `Its API server ${context.server} did not answer within ${limitMs / 1_000} s.`
  let doubt: string | undefined = silent
  const ask = async (): Promise<void> => {
    try {
      await Promise.all(
        [resources.inferenceServices, resources.models].map((one) => api.list(one, { namespace, limit: 1 }, signal)),
      )
      doubt = undefined
    } catch (error) {
      doubt = await sentenceOn(api, error, signal.aborted ? silent : undefined)
    }
  }
  // A credential plugin may hang longer than any request.
  await within(limitMs, ask())
  return doubt
}

async function sentenceOn(api: KubeApi, error: unknown, silent: string | undefined): Promise<string> {
  if (isApiError(error, 404)) {
    return explainAbsence(api, resources.inferenceServices, AbortSignal.timeout(explainLimitMs))
  }
  if (isApiError(error, 401, 403)) return `Its API server refuses these credentials: ${error.detail}.`
  return silent ?? `Its API server ${api.context.server} does not answer: ${rootMessage(error)}.`
}
