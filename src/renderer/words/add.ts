import { formatBytes, formatTokens as tokens, formatWeights } from '../../contract/format.ts'
import type { CatalogueEntry } from '../../contract/model-application.ts'
import type { FileChoiceView, FittedModelView, FitVerdict } from '../../contract/fit.ts'
import type { StoredModelView } from '../../contract/models.ts'
import type { Addition } from '../addition.ts'
import { notReported } from './services.ts'

export const addWords = {
  title: 'Add a model',
  open: 'Add a model…',
  back: 'Services',
  startOver: 'Start over',
  source: 'Model',
  sourceHint: 'hf://owner/repository, https://…',
  sourceHelp:
    'Paste where it comes from, or choose one below. Only what describes it is fetched to tell whether it fits.',
  look: 'Look it up',
  secret: 'Secret with the token',
  secretHelp:
    'Only for a private model: the name of a Secret in the namespace of the service, with a Hugging Face token under the key HF_TOKEN.',
  inStore: 'In the store of this machine',
  wellKnown: 'Well-known models',
  noMatch: 'No model of the store or the list is called that. “Look it up” asks its source.',
  stored: ({ sizeBytes, quantization }: StoredModelView) =>
    [formatBytes(sizeBytes), ...(quantization === undefined ? [] : [quantization])].join(' · '),
  known: ({ parameters, quantization }: CatalogueEntry) => `${parameters} weights · ${quantization}`,
  asking: 'Reading what its source says of it…',
  progress: 'Looking the model up',
  cancel: 'Cancel',
  again: 'Try again',
  files: 'Files of this repository',
  otherFiles: (count: number) => `Another file of this repository (${count})`,
  file: ({ sizeBytes, quantization, parts }: FileChoiceView) =>
    [
      formatBytes(sizeBytes),
      quantization ?? `quantization ${notReported}`,
      ...(parts > 1 ? [`${parts} parts`] : []),
    ].join(' · '),
  fit: 'Memory that it takes',
  facts: ({ architecture, quantization, parameters, trainedContext }: FittedModelView) =>
    [
      architecture ?? `architecture ${notReported}`,
      quantization ?? `quantization ${notReported}`,
      ...(parameters === undefined ? [] : [`${formatWeights(parameters)} weights`]),
      ...(trainedContext === undefined ? [] : [`trained with ${tokens(trainedContext)}`]),
    ].join(' · '),
  fetch: ({ isStored, sizeBytes }: FittedModelView) =>
    isStored
      ? 'It is in the store: nothing has to be fetched.'
      : `${formatBytes(sizeBytes)} are fetched before it starts.`,
  verdicts: {
    fits: 'Fits',
    afterUnloading: 'Fits when others leave memory',
    afterRaising: 'Fits with a larger budget',
    doesNotFit: 'Does not fit',
  } satisfies Record<FitVerdict, string>,
  total: (bytes: number, context: number | undefined) => `${formatBytes(bytes)}${withContext(context)}`,
  looking: (context: number | undefined) => `Looking at what it takes${withContext(context)}…`,
  notKnown: (context: number | undefined) => `What it takes${withContext(context)}: ${notReported}.`,
  context: 'Context',
  held: 'Other models',
  weights: 'Weights',
  kv: 'KV cache',
  rest: 'Overhead',
  contextEffect: 'Longer conversations are cut off.',
  unload: (name: string, bytes: number) => `Evict ${name}: frees ${formatBytes(bytes)}`,
  budget: (bytes: number) => `Budget ${formatBytes(bytes)}`,
  names: 'What it is called',
  name: 'Name',
  nameHelp: 'Of the Model and the InferenceService; pods reach it by this name.',
  namespace: 'Namespace',
  yaml: 'As YAML',
  yamlHelp: 'For kubectl apply, or for the repository that your cluster is made from.',
  copyYaml: 'Copy YAML',
  add: 'Add',
  addAnyway: 'Add, to wait for memory',
  /** It would wait for ever. */
  addInVain: 'Add, though it never starts here',
  adding: 'Creating…',
  created: (name: string) => `${name} is created. It opens here as soon as it is seen.`,
  serve: 'Serve…',
  serveOne: (name: string) => `Serve ${name}`,
  serveSure: ({ chosen, source }: Addition) =>
    `You have begun to add ${chosen ?? source.trim()}. Serving this one instead discards what you wrote there.`,
  serveInstead: 'Discard it and serve this',
  keepWritten: 'Keep what I wrote',
} as const

const withContext = (context: number | undefined) =>
  context === undefined ? '' : ` with a context of ${tokens(context)}`
