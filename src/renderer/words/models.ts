import type { FileChoiceView, FittedModelView, FitVerdict } from '../../contract/fit.ts'
import { formatBytes, formatCount, formatWeights, formatTokens as tokens } from '../../contract/format.ts'
import type { MemoryStateView } from '../../contract/memory.ts'
import type { CatalogueEntry } from '../../contract/model-application.ts'
import type { DownloadView, ModelStoreView, StoredModelView } from '../../contract/models.ts'
import type { Words } from '../../contract/words.ts'
import type { Removal } from '../model-store.ts'
import { notReported } from './services.ts'

const countOfModels = (count: number) => (count === 1 ? '1 model' : `${count} models`)
const totalOf = (models: readonly StoredModelView[]) =>
  formatBytes(models.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0))

export const modelWords = {
  title: 'Models',
  stored: 'Stored models',
  none: 'No model is stored on this machine yet.',
  nameless: 'File with wrong content',
  size: ({ sizeBytes, state }: StoredModelView) =>
    state === 'complete' ? formatBytes(sizeBytes) : `${formatBytes(sizeBytes)} · ${state}`,
  facts: ({ architecture, quantization, contextLength, files }: StoredModelView) =>
    [
      architecture ?? `architecture ${notReported}`,
      quantization ?? `quantization ${notReported}`,
      contextLength === undefined ? `context ${notReported}` : `context ${formatCount(contextLength)}`,
      files === 1 ? '1 file' : `${files} files`,
    ].join(' · '),
  /** Absent of what is no model yet: no service can use it. */
  usage({ usedBy, state, prunable }: StoredModelView): string | undefined {
    if (usedBy.length > 0) return `Used by ${usedBy.join(', ')}.`
    if (state !== 'complete') return undefined
    return prunable === undefined ? `Which services use it: ${notReported}.` : 'No service uses it.'
  },
  /** Why it would be deleted, as a sentence. */
  prunable: (why: string) => `${why.slice(0, 1).toUpperCase()}${why.slice(1)}.`,
  lastUsed: (age: string) => `Last used ${age} ago.`,
  store: ({ freeBytes, models }: ModelStoreView) =>
    `${countOfModels(models.length)}, ${totalOf(models)} · ${freeBytes === undefined ? `free space ${notReported}` : `${formatBytes(freeBytes)} free`}`,
  delete: 'Delete',
  deleteOne: (name: string) => `Delete ${name}`,
  sure: ({ bytes, entries }: Removal) =>
    `Delete ${formatBytes(bytes)} from the disk?${entries === 1 ? '' : ` That is all ${entries} entries of this name.`}`,
  deleteNow: 'Yes, delete it',
  keep: 'Keep',
  pull: 'Fetch a model',
  pullNow: 'Fetch',
  sourceHint: 'hf://owner/repository/file.gguf',
  downloads: 'Downloads',
  download: (name: string) => `Download of ${name}`,
  cancel: (name: string) => `Cancel the download of ${name}`,
  cancelNow: 'Cancel',
  states: {
    waiting: 'Waiting',
    downloading: 'Downloading',
    done: 'Done',
    failed: 'Failed',
    cancelled: 'Cancelled',
  } satisfies Record<DownloadView['state'], string>,
  prune: 'Unused models',
  prunePreview: 'Delete unused models…',
  wouldDelete: (models: readonly StoredModelView[]) =>
    `This deletes ${countOfModels(models.length)}, ${totalOf(models)}:`,
  pruneNow: (models: readonly StoredModelView[]) => `Delete ${countOfModels(models.length)}`,
} as const satisfies Words

export const addWords = {
  title: 'Add a model',
  open: 'Add a model…',
  back: 'Services',
  startOver: 'Start over',
  source: 'Model',
  sourceHint: 'hf://owner/repository, https://…',
  sourceHelp: 'Paste its source, or choose a model below. Only its description is fetched to check whether it fits.',
  look: 'Look it up',
  secret: 'Secret with the token',
  secretHelp:
    'Only for a private model: the name of a Secret in the namespace of the service, with a Hugging Face token under the key HF_TOKEN.',
  inStore: 'In the store of this machine',
  wellKnown: 'Well-known models',
  noMatch: 'No stored or well-known model matches. “Look it up” asks its source.',
  stored: ({ sizeBytes, quantization }: StoredModelView) =>
    [formatBytes(sizeBytes), ...(quantization === undefined ? [] : [quantization])].join(' · '),
  known: ({ parameters, quantization }: CatalogueEntry) => `${parameters} weights · ${quantization}`,
  asking: 'Reading the description of the model…',
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
  fit: 'Memory it needs',
  facts: ({ architecture, quantization, parameters, trainedContext }: FittedModelView) =>
    [
      architecture ?? `architecture ${notReported}`,
      quantization ?? `quantization ${notReported}`,
      ...(parameters === undefined ? [] : [`${formatWeights(parameters)} weights`]),
      ...(trainedContext === undefined ? [] : [`trained with ${tokens(trainedContext)}`]),
    ].join(' · '),
  fetch: ({ isStored, sizeBytes }: FittedModelView) =>
    isStored
      ? 'It is stored here, so nothing is downloaded.'
      : `${formatBytes(sizeBytes)} are downloaded before it starts.`,
  verdicts: {
    fits: 'Fits',
    afterUnloading: 'Fits when others leave memory',
    afterRaising: 'Fits with a larger budget',
    doesNotFit: 'Does not fit',
  } satisfies Record<FitVerdict, string>,
  total: (bytes: number, context: number | undefined) => `${formatBytes(bytes)}${withContext(context)}`,
  looking: (context: number | undefined) => `Checking what it needs${withContext(context)}…`,
  notKnown: (context: number | undefined) => `Memory it needs${withContext(context)}: ${notReported}.`,
  context: 'Context',
  held: 'Other models',
  weights: 'Weights',
  kv: 'KV cache',
  rest: 'Overhead',
  contextEffect: 'Longer conversations are cut off.',
  unload: (name: string, bytes: number) => `Evict ${name}: frees ${formatBytes(bytes)}`,
  budget: (bytes: number) => `Budget ${formatBytes(bytes)}`,
  names: 'Its name',
  name: 'Name',
  nameHelp: 'The name of the Model and the InferenceService; pods reach it by this name.',
  namespace: 'Namespace',
  yaml: 'As YAML',
  yamlHelp: 'For kubectl apply, or for your GitOps repository.',
  copyYaml: 'Copy YAML',
  add: 'Add',
  addAnyway: 'Add and wait for memory',
  /** It would wait for ever. */
  addInVain: 'Add anyway: it cannot start here',
  adding: 'Creating…',
  created: (name: string) => `${name} is created and opens here in a moment.`,
  serve: 'Serve…',
  serveOne: (name: string) => `Serve ${name}`,
  serveSure: ({ chosen, source }: { readonly chosen: string | undefined; readonly source: string }) =>
    `Discard the draft for ${chosen ?? source.trim()} and serve this model?`,
  serveInstead: 'Discard it and serve this',
  keepWritten: 'Keep what I wrote',
} as const satisfies Words

const withContext = (context: number | undefined) =>
  context === undefined ? '' : ` with a context of ${tokens(context)}`

/** Ways to make a model fit. */
export const fitWords = {
  title: 'Does not fit',
  ways: 'What would make it fit',
  tokens,
  context: (count: number) => `Use ${tokens(count)}`,
  contextEffect: 'This changes the InferenceService, so it applies on every machine; longer conversations are cut off.',
  evict: (name: string) => `Evict ${name}`,
  evictEffect: (name: string) => `${name} is evicted here and does not answer until it is brought back.`,
  raise: (bytes: number) => `Raise the budget to ${formatBytes(bytes)}`,
  raiseEffect: (memory: MemoryStateView | undefined) =>
    `Models may then hold that much together${memory?.budgetBytes === undefined ? '' : ` instead of ${formatBytes(memory.budgetBytes)}`}, at once and until it is changed.`,
  raiseFirst: 'The GPU limit is lower than that. First run in a terminal on this Mac:',
  byFlag: 'A flag of the agent sets the budget and wins. Start the agent with another one.',
  place: (place: number) => (place === 1 ? 'It is the next to start.' : `It is number ${place} in the queue.`),
} as const satisfies Words

/** What is wrong with what a person wrote, at its field. */
export const fieldWords = {
  /** Such as "must be a number"; absent where nothing more is known. */
  isWrong: (how: string | undefined) => `It ${how ?? 'cannot be that'}.`,
  nameIsTaken: 'A service with this name already exists.',
  otherNamespace: (served: string) => `This machine serves the namespace ${served} only.`,
} as const satisfies Words
