import rbac from '../../assets/rbac.yaml?raw'
import type { ClusterView } from '../contract/cluster.ts'
import { shellWord } from '../contract/shell.ts'

/** One role of assets/rbac.yaml, with what is said of it there. */
interface Role {
  readonly name: string
  readonly yaml: string
}

const roles: readonly Role[] = rbac.split(/^---\n/m).map((document) => {
  // What precedes a comment of its own is about the whole file.
  const yaml = document.trim().split('\n\n').at(-1) ?? ''
  return { name: /^ {2}name: (.+)$/m.exec(yaml)?.[1] ?? '', yaml }
})

/** Needed in the whole cluster, wherever the agent watches. */
const clusterRole = 'metalbar-cluster'

type Place = Pick<ClusterView, 'context' | 'namespace'>

/** Gives one role to the user of this context, where the agent watches; only the context of who may do that is left to fill in. */
function grant({ name, yaml }: Role, { context, namespace }: Place): string {
  const isEverywhere = namespace === undefined || name === clusterRole
  const binding = isEverywhere ? 'clusterrolebinding' : `--namespace ${shellWord(namespace)} rolebinding`
  return `# To be filled in: the context of who may give rights.
ADMIN=context-of-an-administrator
# The agent's user; on another machine than the agent's, what this prints there.
AGENT=$(kubectl --context ${shellWord(context)} auth whoami --output jsonpath='{.status.userInfo.username}')
kubectl --context "$ADMIN" apply -f - <<'EOF'
${yaml}
EOF
kubectl --context "$ADMIN" create ${binding} ${name} --clusterrole ${name} --user "$AGENT"`
}

/** For an administrator of the cluster: what the agent needs there, and what it can do without. */
export function rightsCommands(place: Place): { readonly needed: string; readonly further: readonly string[] } {
  const [needed = '', ...further] = roles.map((role) => grant(role, place))
  return { needed, further }
}
