import { deletionViewOf, planDeletion } from '../deletion-plan.ts'
import { LinkError } from '../../../contract/client.ts'
import type { ServiceRef } from '../../../contract/commands.ts'
import type { DeletionView } from '../../../contract/model-application.ts'
import { isApiError, rootMessage } from '../../kube/api-error.ts'
import type { KubeApi } from '../../kube/kube-api.ts'
import { refKey } from '../../util/object-key.ts'

/** What goes with the service where it is deleted. Throws LinkError where the cluster does not tell. */
export async function deletion(api: KubeApi, service: ServiceRef, isShown: boolean): Promise<DeletionView> {
  const key = refKey(service)
  if (!isShown) throw new LinkError('refused', `This machine knows no InferenceService ${key}.`)
  try {
    return deletionViewOf(await planDeletion(api, service))
  } catch (error) {
    if (!isApiError(error)) throw error
    const words = error.code === undefined ? `the cluster does not answer (${rootMessage(error)})` : error.detail
    throw new LinkError('refused', `What goes with ${key} is not known: ${words}.`, { cause: error })
  }
}
