import type { ClusterView } from '../contract/cluster.ts'
import { shellWord } from '../contract/shell.ts'

/** What stands between this machine and its cluster; each has one thing that a person can do. */
export type ClusterObstacle = 'noContext' | 'noAnswer' | 'noDefinitions' | 'noRights'

/** Undefined where there is none, or it is not known yet. */
export function obstacleOf({ state, server }: ClusterView): ClusterObstacle | undefined {
  switch (state) {
    case 'live':
    case 'connecting':
      return undefined
    case 'absent':
      return 'noDefinitions'
    case 'denied':
      return 'noRights'
    case 'stale':
    case 'offline':
      return server === '' ? 'noContext' : 'noAnswer'
  }
}

/** Brings LLMKube's definitions and its controller to the cluster. */
export const installCommand = (context: string) => `helm repo add llmkube https://defilantech.github.io/LLMKube
helm install llmkube llmkube/llmkube --kube-context ${shellWord(context)} \\
  --namespace llmkube-system --create-namespace`

/** For an administrator of the cluster: what the agent needs there, for the user of this context; assets/rbac.yaml has more. */
export const rightsCommand = ({ context, namespace }: Pick<ClusterView, 'context' | 'namespace'>) => {
  const binding = namespace === undefined ? 'clusterrolebinding' : `--namespace ${shellWord(namespace)} rolebinding`
  return `kubectl --context ${shellWord(context)} auth whoami
kubectl --context ADMIN apply -f - <<EOF
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: metalbar-agent
rules:
  - apiGroups: [inference.llmkube.dev]
    resources: [inferenceservices, models]
    verbs: [get, list, watch]
  - apiGroups: [inference.llmkube.dev]
    resources: [inferenceservices/status]
    verbs: [patch]
  - apiGroups: ['']
    resources: [services]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: ['']
    resources: [endpoints]
    verbs: [get, create, patch, delete]
  - apiGroups: ['']
    resources: [events]
    verbs: [list, create, patch]
EOF
kubectl --context ADMIN create ${binding} metalbar-agent --clusterrole metalbar-agent --user USER`
}

export const useContextCommand = (context: string) => `metal-agent context use ${shellWord(context)}`
