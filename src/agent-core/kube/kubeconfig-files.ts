import { dirname, resolve } from 'node:path'
import { dumpYaml, KubeConfig, loadYaml, type Cluster, type User } from '@kubernetes/client-node'
import { z } from 'zod'
import { messageOf } from '../util/message-of.ts'
import { readBounded } from '../util/files.ts'

/** A thousand contexts with their certificates. Parsed in one go, so that more would hold the agent up. */
const maxKubeconfigBytes = 4 * 1024 * 1024
/** Several times what all authorities of an operating system take. */
const maxNamedFileBytes = 1024 * 1024

export const kubeconfigText = async (file: string): Promise<string> =>
  (await readBounded(file, maxKubeconfigBytes)).toString('utf8')

/** The bytes of a file that a kubeconfig names. `what` says as what: "client key". */
export async function readNamedFile(what: string, file: string): Promise<Buffer> {
  try {
    return await readBounded(file, maxNamedFileBytes)
  } catch (error) {
    throw new Error(`the ${what} that the kubeconfig names cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

/** One kubeconfig, its paths absolute. Throws where it is not valid. */
export function parseKubeconfig(text: string, file: string): KubeConfig {
  const config = new KubeConfig()
  config.loadFromString(/token-?file/i.test(text) ? withTokenProviders(text, dirname(file)) : text)
  config.makePathsAbsolute(dirname(file))
  return config
}

const usersWithTokenFiles = z.looseObject({
  users: z.array(
    z.looseObject({
      user: z.looseObject({ tokenFile: z.string().optional(), 'token-file': z.string().optional() }).nullish(),
    }),
  ),
})

/** client-node does not know kubectl's `tokenFile`, and reads `token-file` of every user at once, where a pipe would hold it up for ever. */
function withTokenProviders(text: string, folder: string): string {
  const kubeconfig = usersWithTokenFiles.safeParse(loadYaml(text))
  if (!kubeconfig.success) throw new Error('its users are not such as a kubeconfig has')
  const users = kubeconfig.data.users.map((entry) => {
    const { tokenFile, 'token-file': older, ...rest } = entry.user ?? {}
    const named = tokenFile ?? older
    if (named === undefined) return entry
    const provider = { name: 'tokenFile', config: { tokenFile: resolve(folder, named) } }
    return { ...entry, user: { ...rest, token: undefined, 'auth-provider': provider } }
  })
  return dumpYaml({ ...kubeconfig.data, users }, { skipInvalid: true })
}

/** A cluster and who asks it. */
export interface StatedAccess {
  readonly cluster: Cluster
  readonly user: User | null
}

/** With the certificates and keys themselves in place of the names of their files, which client-node reads at each request. */
export async function withFilesRead({ cluster: { caFile, ...cluster }, user }: StatedAccess): Promise<StatedAccess> {
  const read = async (what: string, file: string | undefined, data: string | undefined): Promise<string | undefined> =>
    data || !file ? data : (await readNamedFile(what, file)).toString('base64')
  const caData = await read('certificate authority', caFile, cluster.caData)
  if (user === null) return { cluster: { ...cluster, ...(caData && { caData }) }, user }
  const { certFile, keyFile, ...rest } = user
  const certData = await read('client certificate', certFile, user.certData)
  const keyData = await read('client key', keyFile, user.keyData)
  return {
    cluster: { ...cluster, ...(caData && { caData }) },
    user: { ...rest, ...(certData && { certData }), ...(keyData && { keyData }) },
  }
}
