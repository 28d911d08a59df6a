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
    comment: '# Required: reads the services to serve, reports their state, and publishes their addresses.',
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
    comment: `# Optional: stops and starts a service and changes its context, adds a model and deletes one, from a Mac. Without it the cluster refuses each
# in its own words, and whoever adds a model gets the YAML for somebody with that right.`,
    rules: [
      { group: llmkube, resources: ['inferenceservices'], verbs: ['create', 'patch', 'delete'] },
      { group: llmkube, resources: ['models'], verbs: ['create', 'delete'] },
    ],
  },
  {
    name: 'metalbar-cluster',
    comment: `# Optional: the agent notices when its namespace does not exist, or when the address of its cluster leads to a different cluster.`,
    rules: [{ group: '', resources: ['namespaces'], verbs: ['get'] }],
  },
]

/** A copy too, bound in the namespace of the Leases alone. */
const fleetRole: Role = {
  name: 'metalbar-fleet',
  comment: '# Optional: "metal-agent fleet" lists the other Macs, from their Leases.',
  rules: [{ group: 'coordination.k8s.io', resources: ['leases'], verbs: ['list'] }],
}

/** A copy too. */
const probeRole: Role = {
  name: 'metalbar-probe',
  comment:
    '# Optional: "metal-agent doctor --from-cluster" makes a Pod that calls a service from inside the cluster, and deletes it.',
  rules: [{ group: '', resources: ['pods'], verbs: ['create', 'get', 'delete'] }],
}

/** A copy too. */
const relayRole: Role = {
  name: 'metalbar-relay',
  comment:
    '# Optional: reads the Secret by which the relay of LLMKube 0.10 identifies itself. Not needed with --publish direct.',
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
      ? '# Fill in: the context of an administrator, who can grant rights.\nADMIN=context-of-an-administrator'
      : `ADMIN=${shellWord(admin)}`
  return `${giver}
# The agent's user. On a different machine, write what this command prints on the agent's.
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
# Optional: tells the cluster what each Mac can run. Models are served without it.
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
