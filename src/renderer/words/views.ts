import { formatBytes } from '../../contract/format.ts'
import type { HistoryEntry } from '../../contract/history.ts'
import type { DownloadView, ModelStoreView, StoredModelView } from '../../contract/models.ts'
import type { Removal } from '../model-removal.ts'
import { notReported } from './services.ts'

export const activityWords = {
  title: 'Activity',
  history: 'History',
  filter: 'Filter',
  filterHint: 'A service, or a word',
  problemsOnly: 'Only problems',
  nothing: 'Nothing happened yet.',
  noMatch: 'Nothing of what is shown here matches.',
  more: 'Show more',
  kinds: {
    added: 'Added',
    deleted: 'Deleted',
    started: 'Started',
    ready: 'Ready',
    crashed: 'Crashed',
    stopped: 'Stopped',
    evicted: 'Evicted',
    broughtBack: 'Brought back',
    refused: 'Refused',
    addressChanged: 'Address changed',
    settingsChanged: 'Settings changed',
    machineEnded: 'Machine ended',
    agentStarted: 'Agent started',
    agentStopped: 'Agent stopped',
  } satisfies Record<HistoryEntry['kind'], string>,
  /** By this computer's clock and calendar. */
  time: (at: string) => new Date(at).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' }),
  day: (at: string) => new Date(at).toLocaleDateString(undefined, { weekday: 'long', day: 'numeric', month: 'long' }),
} as const

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
      contextLength === undefined ? `context ${notReported}` : `context ${contextLength.toLocaleString('en')}`,
      files === 1 ? '1 file' : `${files} files`,
    ].join(' · '),
  /** Absent of what is no model yet: no service can use it. */
  usage({ usedBy, state, prunable }: StoredModelView): string | undefined {
    if (usedBy.length > 0) return `Used by ${usedBy.join(', ')}.`
    if (state !== 'complete') return undefined
    return prunable === undefined ? `Which services use it: ${notReported}.` : 'No service uses it.'
  },
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
  sourceHint: 'hf://organisation/repository/file.gguf or https://…',
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
