import { LinkError } from '../../../src/contract/client.ts'
import { applicationYaml } from '../../../src/contract/model-application.ts'
import type { CommandResult } from '../../../src/contract/commands.ts'
import type { FitView, FittedModelView } from '../../../src/contract/fit.ts'
import type { FakeAgent } from './fake-agent.ts'
import { withModels, withServices, withSettings } from './scene-agents.ts'
import { inMemory } from './scene-gauges.ts'
import { gigabyte, ready, stopping, tooLarge } from './scene-services.ts'

export const withWays = (answers: FakeAgent['answers']) => () => {
  const agent = withServices([tooLarge])()
  agent.show({
    ...agent.shown,
    ...inMemory,
    memory: { ...inMemory.memory, waiting: ['default/llama-70b'] },
    services: [tooLarge, ...inMemory.services],
  })
  const { known } = withSettings()
  if (known.settings !== undefined) agent.known.settings = known.settings
  agent.answers.push(...answers)
  return agent
}

export const withDeletion = () => {
  const agent = withServices([ready])()
  const message =
    'The Model phi-4-mini-q4 is deleted with it, since no other service uses it; downloaded files stay on this machine.'
  agent.known.deletion = {
    uid: 'ready',
    model: { name: 'phi-4-mini-q4', isDeleted: true, message },
    message: `The InferenceService default/phi-4-mini is deleted in the cluster, whichever machine serves it. ${message}`,
  }
  return agent
}

/** Answers this about every source; without it nobody knows any. */
export const withFit =
  (fit?: FitView, answers: FakeAgent['answers'] = []) =>
  () => {
    const agent = withWays(answers)()
    const { known } = withModels()
    if (known.models !== undefined) agent.known.models = known.models
    if (fit !== undefined) agent.known.fit = fit
    // The stored model of that name is offered to be added.
    const services = inMemory.services.filter(({ name }) => name !== stopping.name)
    agent.show({ ...agent.shown, services })
    return agent
  }

/** As the Hub answers of what nobody may see. */
export function fitUnknown(): FakeAgent {
  const agent = withFit()()
  agent.replies.fit = () => {
    throw new LinkError(
      'refused',
      'huggingface.co has no public repository nobody/nothing: correct spec.source, or if it is private put a token into the Secret of spec.sourceSecretRef, the setting hubTokenFile or HF_TOKEN.',
    )
  }
  return agent
}

/** As the agent answers who names a Secret that is not there. */
export function fitWithoutSecret(): FakeAgent {
  const agent = withFit()()
  agent.replies.fit = ({ namespace = 'default', sourceSecret }) => {
    throw new LinkError(
      'refused',
      sourceSecret === undefined
        ? 'huggingface.co has no public repository team/private.'
        : `Secret ${namespace}/${sourceSecret}, which spec.sourceSecretRef names, does not exist: create it with the key HF_TOKEN, or remove sourceSecretRef.`,
    )
  }
  return agent
}

const file = (quantization: string, gigabytes: number, parts = 1) => {
  const path = `Qwen_Qwen3-30B-A3B-${quantization}${parts > 1 ? '-00001-of-00002' : ''}.gguf`
  const source = `hf://bartowski/Qwen_Qwen3-30B-A3B-GGUF/${path}`
  return { path, source, sizeBytes: gigabytes * gigabyte, quantization, parts }
}

export const chooseFile: FitView = {
  kind: 'choose',
  message: 'bartowski/Qwen_Qwen3-30B-A3B-GGUF has 5 models: choose one.',
  files: [file('Q2_K', 11.3), file('Q4_K_M', 18.6), file('Q5_K_M', 21.7), file('Q8_0', 32.5), file('bf16', 61.1, 2)],
}

const phi =
  'https://huggingface.co/bartowski/microsoft_Phi-4-mini-instruct-GGUF/resolve/main/microsoft_Phi-4-mini-instruct-Q5_K_M.gguf'

export const fitting: FittedModelView = {
  kind: 'model',
  source: phi,
  quantization: 'Q5_K_M',
  architecture: 'phi3',
  parameters: 3.8e9,
  sizeBytes: 2.8 * gigabyte,
  trainedContext: 131_072,
  isStored: false,
  files: [],
  contextSize: 8_192,
  slots: 1,
  items: sizes({ weights: 2.8, kv: 1.1, compute: 0.4, overhead: 0.3 }),
  totalBytes: 4.6 * gigabyte,
  guess: 'The size of the cache type q6_0 is not known, so it is counted as f16.',
  notes: [],
  verdict: 'fits',
  message: 'It fits: it needs 4.6 GB, and 26.4 GB of the budget of 72.0 GB are left.',
  unload: [],
  ways: [],
  contexts: [2_048, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072].map((contextSize) => {
    const kvBytes = (contextSize / 8_192) * 1.1 * gigabyte
    return { contextSize, kvBytes, totalBytes: 3.5 * gigabyte + kvBytes, verdict: 'fits' as const }
  }),
  room: { budgetBytes: 72 * gigabyte, committedBytes: 45.6 * gigabyte, availableBytes: 42.2 * gigabyte },
}

export const misfitting: FittedModelView = {
  ...fitting,
  source:
    'https://huggingface.co/bartowski/Llama-3.3-70B-Instruct-GGUF/resolve/main/Llama-3.3-70B-Instruct-Q4_K_M.gguf',
  quantization: 'Q4_K_M',
  architecture: 'llama',
  parameters: 70.6e9,
  sizeBytes: 42.5 * gigabyte,
  diskProblem: 'The disk has 31.0 GB free, and 42.5 GB are to be fetched.',
  items: sizes({ weights: 42.5, kv: 2.7, compute: 0.6, overhead: 0.3 }),
  totalBytes: 46.1 * gigabyte,
  verdict: 'afterUnloading',
  message: 'It needs 46.1 GB, and 26.4 GB of the budget of 72.0 GB are left. It fits when phi-4-mini leaves memory.',
  unload: [{ namespace: 'default', name: 'phi-4-mini', freesBytes: 25.8 * gigabyte }],
  ways: [
    { kind: 'change', sentence: 'Use a context of 2,048 tokens: needs 26.1 GB', change: { contextSize: 2_048 } },
    {
      kind: 'budget',
      sentence: 'Raise the memory budget to 92.0 GB',
      budget: { of: 'machine', bytes: 92 * gigabyte },
    },
  ],
  contexts: [2_048, 4_096, 8_192, 16_384, 32_768].map((contextSize) => {
    const kvBytes = (contextSize / 8_192) * 2.7 * gigabyte
    const verdict = contextSize > 16_384 ? ('doesNotFit' as const) : ('afterUnloading' as const)
    return { contextSize, kvBytes, totalBytes: 43.4 * gigabyte + kvBytes, verdict }
  }),
}

export const refusedAddition: CommandResult = {
  outcome: 'refused',
  by: 'cluster',
  message:
    'default/phi was not added: models.inference.llmkube.dev is forbidden: user "me" cannot create it in namespace "default". Nothing was created.',
  yaml: applicationYaml({ namespace: 'default', name: 'phi', source: phi }),
}

function sizes(gigabytes: Partial<FittedModelView['items']>): FittedModelView['items'] {
  const of = (item: keyof FittedModelView['items']) => (gigabytes[item] ?? 0) * gigabyte
  return {
    ...{ weights: of('weights'), kv: of('kv'), compute: of('compute') },
    ...{ promptCache: of('promptCache'), mmproj: of('mmproj'), overhead: of('overhead') },
  }
}
