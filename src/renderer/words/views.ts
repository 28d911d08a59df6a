import { formatBytes, formatCount } from '../../contract/format.ts'
import type { DownloadView, ModelStoreView, StoredModelView } from '../../contract/models.ts'
import type { Removal } from '../model-removal.ts'
import { notReported } from './services.ts'

const countOfModels = (count: number) => (count === 1 ? '1 model' : `${count} models`)
const totalOf = (models: readonly StoredModelView[]) =>
  formatBytes(models.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0))

export const modelWords = {
  title: 'Models',
  stored: 'Stored models',
  none: 'No model is stored on this machine yet.',
  nameless: 'A file of wrong content',
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
  lastUsed: 'Last used',
  ago: 'ago',
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
} as const
