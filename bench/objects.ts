import type { SampleScript } from '../test/support/sample-servers/sample.ts'
import { sampleScriptArgs } from '../test/support/sample-servers/sample.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
export const inferenceService = (name: string) => ({ apiVersion, kind: 'InferenceService', metadata: { name } })

/** Without a prompt cache, so that the memory of 50 of them fits any machine. */
export const servedBySample = (name: string, modelRef: string, script: SampleScript) => ({
  ...inferenceService(name),
  spec: { modelRef, extraArgs: ['--cache-ram', '0', ...sampleScriptArgs(script)] },
})

export const metalModel = (name: string, source: string) => ({
  apiVersion,
  kind: 'Model',
  metadata: { name },
  spec: { source, format: 'gguf', hardware: { accelerator: 'metal' } },
})
