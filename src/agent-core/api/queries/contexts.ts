import { LinkError } from '../../../contract/client.ts'
import type { Answer } from '../../../contract/queries.ts'
import { KubeconfigError, listContexts, type KubeconfigChoice, type PinnedContext } from '../../kube/pinned-context.ts'

/** What the kubeconfig offers, without its credentials. Throws LinkError where it cannot be read. */
export async function contexts(
  choice: KubeconfigChoice,
  inUse: PinnedContext | undefined,
): Promise<Answer<'contexts'>> {
  try {
    const { source, contexts: found } = await listContexts(choice)
    return { kubeconfig: source, contexts: found.map((one) => ({ ...one, inUse: one.name === inUse?.name })) }
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error
    throw new LinkError('refused', error.message, { cause: error })
  }
}
