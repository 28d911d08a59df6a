import { z } from 'zod'
import { isApiError, rootMessage } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { resources } from '../kube/resources.ts'
import { type HubToken, hubTokenLabel, secretMissing, secretUnreadable, tokenOfSecret } from '../models/hub/token.ts'

const secretShape = z.object({
  metadata: z.object({ labels: z.record(z.string(), z.string()).default({}) }).default({ labels: {} }),
  data: z.record(z.string(), z.string()).default({}),
})

/** Read at each use, so that a new token counts at once and none is kept. Throws ModelError. */
export async function tokenIn(api: Pick<KubeApi, 'get'>, namespace: string, name: string): Promise<HubToken> {
  const found = await api.get(resources.secrets, namespace, name).catch((error: unknown) => {
    if (isApiError(error, 404)) throw secretMissing(namespace, name)
    throw secretUnreadable(namespace, name, rootMessage(error), error)
  })
  const parsed = secretShape.safeParse(found)
  if (!parsed.success) throw secretUnreadable(namespace, name, 'it is not a Secret as Kubernetes has them')
  const decoded = Object.entries(parsed.data.data).map(([key, value]) => [
    key,
    Buffer.from(value, 'base64').toString('utf8'),
  ])
  const isForHub = parsed.data.metadata.labels[hubTokenLabel] === 'true'
  return tokenOfSecret(
    { namespace, name, isForHub },
    z.record(z.string(), z.string()).parse(Object.fromEntries(decoded)),
  )
}
