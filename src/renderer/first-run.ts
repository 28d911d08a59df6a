import type { ClusterView } from '../contract/cluster.ts'
import { shellWord } from '../contract/shell.ts'

/** What stands between this machine and its cluster; each has one thing that a person can do. */
export type ClusterObstacle = 'noContext' | 'noAnswer' | 'noDefinitions' | 'noRights' | 'noLogin'

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
    case 'unauthorized':
      return 'noLogin'
    case 'stale':
    case 'offline':
      return server === '' ? 'noContext' : 'noAnswer'
  }
}

/** Brings LLMKube's definitions and its controller to the cluster. */
export const installCommand = (context: string) => `helm repo add llmkube https://defilantech.github.io/LLMKube
helm install llmkube llmkube/llmkube --kube-context ${shellWord(context)} \\
  --namespace llmkube-system --create-namespace`

const definitions = 'https://raw.githubusercontent.com/defilantech/LLMKube/main/config/crd/bases'

/** Brings the two definitions that the agent reads, without LLMKube's controller. Server-side, since one is too long for what kubectl keeps beside an object. */
export const definitionsCommand = (context: string) => `kubectl --context ${shellWord(context)} apply --server-side \\
  --filename ${definitions}/inference.llmkube.dev_models.yaml \\
  --filename ${definitions}/inference.llmkube.dev_inferenceservices.yaml`

/** Logs in by the kubeconfig's own plugin where it has one, and says as whom. */
export const loginCommand = (context: string) => `kubectl --context ${shellWord(context)} auth whoami`

export const useContextCommand = (context: string) => `metal-agent context use ${shellWord(context)}`
