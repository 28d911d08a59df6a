import type { SampleScript } from '../test/support/sample-servers/sample.ts'
import { sampleScriptArgs } from '../test/support/sample-servers/sample.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
export const inferenceService = (name: string) => ({ apiVersion, kind: 'InferenceService', metadata: { name } })

export const servedBySample = (name: string, modelRef: string, script: SampleScript) => ({
  ...inferenceService(name),
  spec: { modelRef, extraArgs: sampleScriptArgs(script) },
})

export const metalModel = (name: string, source: string) => ({
  apiVersion,
  kind: 'Model',
  metadata: { name },
  spec: { source, format: 'gguf', hardware: { accelerator: 'metal' } },
})
