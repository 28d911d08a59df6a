import type { ClusterView } from '../contract/cluster.ts'
import { shellWord } from '../contract/shell.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'

/** What stands between this machine and its cluster; each has one thing that a person can do. */
export type ClusterObstacle = 'noContext' | 'localNetwork' | 'noAnswer' | 'noDefinitions' | 'noRights' | 'noLogin'

/** Undefined where there is none, or it is not known yet. */
export function obstacleOf({ state, server, cause }: ClusterView): ClusterObstacle | undefined {
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
      if (cause !== undefined) return cause
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

export const contextCommand = (context: string) => `metal-agent context use ${shellWord(context)}`

/** Small enough to try with. */
const modelSource =
  'https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct-GGUF/resolve/main/qwen2.5-0.5b-instruct-q4_k_m.gguf'

/** What to paste into a terminal to have a first service on this machine. */
export function firstServiceCommand({ context, namespace }: Pick<AgentSnapshot['cluster'], 'context' | 'namespace'>) {
  return `kubectl --context ${shellWord(context)} --namespace ${shellWord(namespace ?? 'default')} apply -f - <<EOF
apiVersion: inference.llmkube.dev/v1alpha1
kind: Model
metadata:
  name: qwen
spec:
  source: ${modelSource}
  format: gguf
  hardware:
    accelerator: metal
---
apiVersion: inference.llmkube.dev/v1alpha1
kind: InferenceService
metadata:
  name: qwen
spec:
  modelRef: qwen
EOF`
}
