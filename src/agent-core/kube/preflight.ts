import { isApiError } from './api-error.ts'
import type { KubeApi } from './kube-api.ts'
import { resources, type Resource } from './resources.ts'

/**
 * A list in a namespace that does not exist answers 200 and empty, so it is asked for once. Returns the sentence for a
 * person, or undefined where the namespace is there or may not be asked for.
 */
export async function missingNamespace(
  api: KubeApi,
  namespace: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    await api.get(resources.namespaces, undefined, namespace, signal)
    return undefined
  } catch (error) {
    if (isApiError(error, 404)) {
      return `The namespace "${namespace}" does not exist in this cluster; create it, or name another with --namespace.`
    }
    if (isApiError(error, 403)) return undefined
    throw error
  }
}

/** The API group of LLMKube's first releases; this agent knows only what came after it. */
const oldGroup = 'llmkube.io'

/** Why LLMKube's definitions are not there, as a sentence that says what to do. */
export async function explainAbsence(api: KubeApi, { group }: Resource, signal: AbortSignal): Promise<string> {
  const groups: readonly string[] = await api.groups(signal).catch(() => [])
  return groups.includes(oldGroup)
    ? `The cluster has LLMKube's old API group ${oldGroup} and not ${group}; upgrade LLMKube there.`
    : `The cluster does not have LLMKube's API group ${group}; install LLMKube there.`
}
