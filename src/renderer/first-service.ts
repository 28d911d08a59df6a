import { shellWord } from '../contract/shell.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'

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
