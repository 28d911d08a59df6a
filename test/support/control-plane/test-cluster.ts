import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { AdminClient, ApiError, type ClusterConnection } from './admin-client.ts'
import { writeKubeconfig } from './kubeconfig.ts'

/** A rule of an RBAC Role. */
export interface PolicyRule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
  readonly resourceNames?: readonly string[]
}

/** The rights of one user who is not the administrator. */
export interface RestrictedAccess {
  /** Path of a kubeconfig. */
  readonly kubeconfig: string
  readonly connection: ClusterConnection
  /** Replaces the rights; counts from the next request on, or shortly after. */
  grant(rules: readonly PolicyRule[]): Promise<void>
  /** Makes the token invalid: requests are answered 401, after the API server's cache of 10 s at the latest. */
  revoke(): Promise<void>
}

/** A namespace of one's own on a running API server. */
export class TestCluster implements AsyncDisposable {
  readonly connection: ClusterConnection
  readonly namespace: string
  /** Path of the administrator's kubeconfig; its context names the namespace. */
  readonly kubeconfig: string
  /** Means `namespace` where an object names none. */
  readonly admin: AdminClient
  readonly #folder: string

  private constructor(connection: ClusterConnection, namespace: string, kubeconfig: string, folder: string) {
    this.connection = connection
    this.namespace = namespace
    this.kubeconfig = kubeconfig
    this.admin = new AdminClient(connection, namespace)
    this.#folder = folder
  }

  static async open(connection: ClusterConnection): Promise<TestCluster> {
    const namespace = randomName('test')
    const folder = await mkdtemp(join(tmpdir(), 'metalbar-cluster-'))
    const kubeconfig = await writeKubeconfig(join(folder, 'admin.kubeconfig'), connection, namespace)
    const cluster = new TestCluster(connection, namespace, kubeconfig, folder)
    await cluster.createNamespace(namespace)
    return cluster
  }

  async createNamespace(name = randomName('test')): Promise<string> {
    await this.admin.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    return name
  }

  /** A user who may do in the namespace what the rules say, cluster-wide what `clusterRules` say, and nothing else. */
  async restrictedKubeconfig(
    rules: readonly PolicyRule[],
    { clusterRules = [] }: { clusterRules?: readonly PolicyRule[] } = {},
  ): Promise<RestrictedAccess> {
    const name = randomName('user')
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } }
    const subjects = [{ kind: 'ServiceAccount', name, namespace: this.namespace }]
    const role = (kind: string, granted: readonly PolicyRule[]) => ({
      apiVersion: rbac,
      kind,
      metadata: { name },
      rules: granted,
    })
    await this.admin.create(account)
    for (const [kind, granted] of [
      ['Role', rules],
      ['ClusterRole', clusterRules],
    ] as const) {
      await this.admin.create(role(kind, granted))
      const roleRef = { apiGroup: rbacGroup, kind, name }
      await this.admin.create({ apiVersion: rbac, kind: `${kind}Binding`, metadata: { name }, roleRef, subjects })
    }
    const connection = { ...this.connection, token: await this.#issueToken(name) }
    const kubeconfig = await writeKubeconfig(join(this.#folder, `${name}.kubeconfig`), connection, this.namespace)
    return {
      kubeconfig,
      connection,
      grant: async (granted) => {
        await this.admin.apply(role('Role', granted))
      },
      revoke: () => this.admin.delete(account),
    }
  }

  /**
   * Requests the whole API server has answered since its start, by verb and resource, such as `PATCH
   * inferenceservices/status`: compare two readings, on a server that no other test uses. A watch counts when it ends.
   */
  async requestCounts(): Promise<Record<string, number>> {
    const { status, text } = await this.admin.request({ method: 'GET', path: '/metrics' })
    if (status !== 200) throw new ApiError(status, 'Metrics', text.slice(0, 200))
    return countRequests(text)
  }

  /** Removes what an agent that watches all namespaces would still see. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const kind of ['InferenceService', 'Model']) {
      await this.admin.request({
        method: 'DELETE',
        path: `/apis/inference.llmkube.dev/v1alpha1/namespaces/${this.namespace}/${kind.toLowerCase()}s`,
      })
    }
    this.admin.close()
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #issueToken(account: string): Promise<string> {
    const path = `/api/v1/namespaces/${this.namespace}/serviceaccounts/${account}/token`
    const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 3600 * 6 } }
    const { status, text } = await this.admin.request({ method: 'POST', path, body })
    if (status !== 201) throw new ApiError(status, 'TokenRequest', text)
    return tokenRequest.parse(JSON.parse(text)).status.token
  }
}

const rbacGroup = 'rbac.authorization.k8s.io'
const rbac = `${rbacGroup}/v1`

const tokenRequest = z.looseObject({ status: z.looseObject({ token: z.string() }) })

function countRequests(metrics: string): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const [, labels = '', value] of metrics.matchAll(/^apiserver_request_total\{(.*)\} (\S+)$/gm)) {
    const { verb, resource, subresource } = Object.fromEntries(
      [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', text = '']) => [label, text]),
    )
    if (verb === undefined || resource === undefined || resource === '') continue
    const what = `${verb} ${resource}${subresource === undefined || subresource === '' ? '' : `/${subresource}`}`
    counts[what] = (counts[what] ?? 0) + Number(value)
  }
  return counts
}

function randomName(prefix: string): string {
  return `${prefix}-${randomBytes(5).toString('hex')}`
}
