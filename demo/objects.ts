/** A Model and the InferenceService that serves it, as a person would apply them. */
export function sampleObjects(name: string, source: string, { contextSize = 512 }: { contextSize?: number } = {}) {
  const metadata = { name, namespace: 'default' }
  const apiVersion = 'inference.llmkube.dev/v1alpha1'
  return [
    {
      apiVersion,
      kind: 'Model',
      metadata,
      spec: { source, format: 'gguf', hardware: { accelerator: 'metal' } },
    },
    {
      apiVersion,
      kind: 'InferenceService',
      metadata,
      spec: { modelRef: name, contextSize },
    },
  ]
}
