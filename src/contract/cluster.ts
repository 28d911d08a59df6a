import { z } from 'zod'
import { shellWord } from './shell.ts'

/**
 * How well we see one resource of the cluster. `stale` keeps its last list and says since when; `denied`: the login lacks rights; `unauthorized`:
 * the login is not accepted, or no longer.
 */
export const connectionStates = ['connecting', 'live', 'stale', 'denied', 'unauthorized', 'absent', 'offline'] as const
export const connectionState = z.enum(connectionStates)
export type ConnectionState = z.infer<typeof connectionState>

/** Opens the pane of System Settings where a person allows it. */
export const localNetworkPane = 'x-apple.systempreferences:com.apple.preference.security?Privacy_LocalNetwork'

export const clusterView = z.object({
  context: z.string(),
  server: z.string(),
  /** Absent = all namespaces. */
  namespace: z.string().optional(),
  /** Where this machine tells what it can run; absent while no cluster is chosen. */
  lease: z.object({ namespace: z.string(), name: z.string() }).optional(),
  state: connectionState,
  message: z.string(),
  /** Why it is not reached, where the person at this machine can change it; the message says so too. */
  cause: z.literal('localNetwork').optional(),
  since: z.iso.datetime(),
  retryAt: z.iso.datetime().optional(),
})
export type ClusterView = z.infer<typeof clusterView>

/** Whole words of a context's name: `reproduction` and `products` are none. */
const words = new Set(['prod', 'production', 'prd', 'live'])

/** By its name alone, which is all that a kubeconfig says of a cluster: asked about once too often is better than once too seldom. */
export const looksLikeProduction = (context: string): boolean =>
  context
    .toLowerCase()
    .split(/[^a-z]+/)
    .some((word) => words.has(word))

interface Rule {
  /** Empty for core/v1. */
  readonly group: string
  readonly resources: readonly string[]
  /** Absent = all. */
  readonly names?: readonly string[]
  readonly verbs: readonly string[]
}

/** One role of assets/rbac.yaml, with what is said of it there. */
interface Role {
  readonly name: string
  readonly comment: string
  readonly rules: readonly Rule[]
}

const llmkube = 'inference.llmkube.dev'

/** A copy of assets/rbac.yaml, since neither the app nor the command brings that file along. */
const roles: readonly Role[] = [
  {
    name: 'metalbar-agent',
    comment: '# Needed: reads what is to be served, says how it goes, and publishes where it is served.',
    rules: [
      { group: llmkube, resources: ['inferenceservices', 'models'], verbs: ['get', 'list', 'watch'] },
      { group: llmkube, resources: ['inferenceservices/status'], verbs: ['patch'] },
      { group: '', resources: ['services'], verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
      {
        group: 'discovery.k8s.io',
        resources: ['endpointslices'],
        verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
      },
      { group: '', resources: ['endpoints'], verbs: ['get', 'create', 'patch', 'delete'] },
      { group: '', resources: ['events'], verbs: ['list', 'create', 'patch'] },
    ],
  },
  {
    name: 'metalbar-models',
    comment: `# Left out where nobody is to change the cluster from a Mac: stop, start and change the context of a service, add a model, and delete one.
# Each is then refused in the cluster's own words, and adding a model gives the YAML for somebody who may.`,
    rules: [
      { group: llmkube, resources: ['inferenceservices'], verbs: ['create', 'patch', 'delete'] },
      { group: llmkube, resources: ['models'], verbs: ['create', 'delete'] },
    ],
  },
  {
    name: 'metalbar-cluster',
    comment: `# Left out where an agent is to know its own namespace alone. With it an agent says that its namespace does not exist, and notices that the
# address of its cluster leads to another one.`,
    rules: [{ group: '', resources: ['namespaces'], verbs: ['get'] }],
  },
]

/** A copy too, bound in the namespace of the Leases alone. */
const fleetRole: Role = {
  name: 'metalbar-fleet',
  comment: '# Left out where a Mac need not show what the other Macs are: "metal-agent fleet" reads their Leases.',
  rules: [{ group: 'coordination.k8s.io', resources: ['leases'], verbs: ['list'] }],
}

/** A copy too. */
const probeRole: Role = {
  name: 'metalbar-probe',
  comment:
    '# Left out where no Pod is to ask a service from inside the cluster: "metal-agent doctor --from-cluster" makes one and deletes it.',
  rules: [{ group: '', resources: ['pods'], verbs: ['create', 'get', 'delete'] }],
}

/** A copy too. */
const relayRole: Role = {
  name: 'metalbar-relay',
  comment:
    '# Left out where no service is published for the relays of LLMKube 0.10 (--publish direct): what a relay has to show.',
  rules: [{ group: '', resources: ['secrets'], names: ['llmkube-metal-relay'], verbs: ['get'] }],
}

/** What the agent's login may be asked to do: `needed` to serve, `further` for what can be left out. */
export const rightsOfAgent = {
  needed: roles.slice(0, 1).flatMap(({ rules }) => rules),
  further: roles.slice(1).flatMap(({ rules }) => rules),
} as const

function yamlOf({ name, comment, rules }: Role): string {
  const list = (items: readonly string[]) => `[${items.map((item) => item || "''").join(', ')}]`
  const lines = rules.flatMap(({ group, resources, names, verbs }) => [
    `  - apiGroups: ${list([group])}`,
    `    resources: ${list(resources)}`,
    ...(names ? [`    resourceNames: ${list(names)}`] : []),
    `    verbs: ${list(verbs)}`,
  ])
  return `${comment}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${name}
rules:
${lines.join('\n')}`
}

/** Needed in the whole cluster, wherever the agent watches. */
const clusterRole = 'metalbar-cluster'

export interface RightsPlace extends Pick<ClusterView, 'context' | 'namespace' | 'lease'> {
  /** The context of who may give rights; undefined = to be filled in. */
  readonly admin?: string | undefined
}

/** Gives one role to the user of this context, where the agent watches; that of the fleet where the Leases are. */
function grant(role: Role, { context, namespace, lease, admin }: RightsPlace): string {
  const { name } = role
  const where = name === clusterRole ? undefined : name === fleetRole.name ? lease?.namespace : namespace
  const binding = where === undefined ? 'clusterrolebinding' : `--namespace ${shellWord(where)} rolebinding`
  const giver =
    admin === undefined
      ? '# To be filled in: the context of who may give rights.\nADMIN=context-of-an-administrator'
      : `ADMIN=${shellWord(admin)}`
  return `${giver}
# The agent's user; on another machine than the agent's, what this prints there.
AGENT=$(kubectl --context ${shellWord(context)} auth whoami --output jsonpath='{.status.userInfo.username}')
kubectl --context "$ADMIN" apply -f - <<'EOF'
${yamlOf(role)}
EOF
kubectl --context "$ADMIN" create ${binding} ${name} --clusterrole ${name} --user "$AGENT"`
}

/**
 * The role `metalbar-lease` of assets/rbac.yaml for the Lease of this machine alone. Whoever may create one may create any: that right knows
 * no names.
 */
const grantLease = ({ namespace, name }: NonNullable<ClusterView['lease']>): string => `
kubectl --context "$ADMIN" --namespace ${shellWord(namespace)} apply -f - <<'EOF'
# Left out where the cluster is not to be told what each Mac can run: models are served without it.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: ${name}-lease
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [${name}]
    verbs: [get, patch, delete]
EOF
kubectl --context "$ADMIN" --namespace ${shellWord(namespace)} create rolebinding ${name}-lease --role ${name}-lease --user "$AGENT"`

/** For an administrator of the cluster: what the agent needs there with its Lease, and what else it can do without. */
export function rightsCommands(place: RightsPlace): { readonly needed: string; readonly further: readonly string[] } {
  const given = [...roles, ...(place.lease ? [fleetRole] : []), probeRole, relayRole]
  const [needed = '', ...further] = given.map((role) => grant(role, place))
  return { needed: place.lease ? `${needed}\n${grantLease(place.lease)}` : needed, further }
}
