import { z } from 'zod'
import type { KubeApi } from './kube-api.ts'
import { resources } from './resources.ts'

const secretShape = z.object({
  metadata: z.object({ labels: z.record(z.string(), z.string()).default({}) }).default({ labels: {} }),
  data: z.record(z.string(), z.string()).default({}),
})

export interface Secret {
  readonly labels: Readonly<Record<string, string>>
  /** By key, as text. */
  readonly values: Readonly<Record<string, string>>
}

/** Read by name at each use, and never kept or watched. Undefined where it is no Secret as Kubernetes has them. Throws ApiError. */
export async function readSecret(
  api: Pick<KubeApi, 'get'>,
  namespace: string,
  name: string,
  signal?: AbortSignal,
): Promise<Secret | undefined> {
  const parsed = secretShape.safeParse(await api.get(resources.secrets, namespace, name, signal))
  if (!parsed.success) return undefined
  const { metadata, data } = parsed.data
  const values = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')])
  return { labels: metadata.labels, values: z.record(z.string(), z.string()).parse(Object.fromEntries(values)) }
}
