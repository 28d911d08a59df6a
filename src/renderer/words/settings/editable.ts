import type { SettingName } from '../../../contract/settings.ts'

export interface SettingText {
  readonly title: string
  /** What it does, and what its special values mean. */
  readonly help: string
  /** Completes "It must be …" where the kind of the value and its bounds do not say it all. */
  readonly wants?: string
  /** Of a setting that is one of a few values. */
  readonly choices?: Readonly<Record<string, string>>
}

/** What a person reads of each setting that may be changed while the agent runs. The command line has help of its own in the table of settings. */
export const settingTexts: Readonly<Record<SettingName, SettingText>> = {
  kubeconfig: {
    title: 'Kubeconfig',
    help: 'The file that names clusters and how they are reached. Left empty: $KUBECONFIG, then the service account if in a Pod, then ~/.kube/config.',
  },
  namespace: {
    title: 'Namespace',
    help: 'Only InferenceServices of this namespace are served. Left empty: those of all namespaces.',
    wants: 'the name of a namespace, of at most 63 characters',
  },
  llamaServer: {
    title: 'Path of llama-server',
    help: 'The program that serves models. Left empty: it is looked for in /opt/homebrew/bin, then in /usr/local/bin, and on Linux in PATH and in Homebrew’s folder.',
  },
  drainLimitMs: {
    title: 'Time for requests to finish',
    help: 'So long a server that is to stop goes on with what it is answering. 0s cuts it off.',
  },
  startupStallMs: {
    title: 'Longest wait for a model that loads',
    help: 'A server that makes no progress for so long while it loads its model is started again.',
  },
  downloadBytesPerSecond: {
    title: 'Download limit per second',
    help: 'What all downloads together may take of the line each second. 0 = no limit.',
  },
  downloadsAtOnce: {
    title: 'Downloads at the same time',
    help: 'How many models are downloaded at once; the others wait.',
  },
  hubEndpoint: {
    title: 'Hugging Face address',
    help: 'Of the Hub, or of a mirror of it, which also gets the token. Left empty: $HF_ENDPOINT, then https://huggingface.co.',
    wants: 'an http:// or https:// address of at most 1000 characters',
  },
  hubTokenFile: {
    title: 'Hugging Face token file',
    help: 'A file that holds nothing but the token. Left empty: what the app keeps, then $HF_TOKEN, then the file that hf auth login writes.',
  },
  caFile: {
    title: 'Certificate authorities',
    help: 'A PEM file of certificate authorities that downloads trust beside the usual ones. Left empty: only the usual ones.',
  },
  diskReserveBytes: {
    title: 'Disk space to leave free',
    help: 'A download that would leave less than this on the disk of the model folder is not begun. 0 = 1 % of the disk, at most 2 GiB (2.1 GB).',
  },
  partialKeepMs: {
    title: 'Keep partial downloads for',
    help: 'A download that was broken off can go on for so long; then what there is of it is deleted.',
  },
  refreshEveryMs: {
    title: 'Look for changed models every',
    help: 'How often the source of a Model whose refreshPolicy is OnChange is asked whether it changed.',
  },
  memoryFraction: {
    title: 'Part of memory for models',
    help: 'What all models may hold together, as a part of all memory: 0.5 is half of it. 0 = automatic: 0.67, above 38.7 GB (36 GiB) of memory 0.75, from 137 GB (128 GiB) 0.9.',
  },
  memoryBudgetBytes: {
    title: 'Fixed amount of memory for models',
    help: 'What all models may hold together, whatever part of memory that is. Left empty: the part above counts.',
  },
  memoryMarginBytes: {
    title: 'How far a model may outgrow its estimate',
    help: 'What a model may take past what it was admitted with before it is said. Left empty: 1 GiB, or 15 % where that is more.',
  },
  memoryCheckMode: {
    title: 'A start that cannot be checked',
    help: 'What becomes of a model whose need of memory nobody can tell before it runs.',
    choices: { enforce: 'Refuse it', warn: 'Let it start' },
  },
  evictionEnabled: {
    title: 'Evict models when memory runs out',
    help: 'The least important model leaves memory when memory is critically short, and comes back later.',
  },
  evictionShare: {
    title: 'Evict only when models hold',
    help: 'As a part of all memory: 0.5 is half of it. While models hold less, other applications are the cause, and no model leaves memory for them.',
  },
  evictionAtAdmission: {
    title: 'Let important models displace others',
    help: 'A model of higher priority that does not fit has models of lower priority leave memory.',
  },
  comeBackMs: {
    title: 'Bring evicted models back after',
    help: 'Memory must have been enough for so long before a model that was evicted comes back.',
  },
  sleepPolicy: {
    title: 'Keep this machine awake',
    help: 'While a model loads or requests run, the system does not go to sleep by itself; the display may.',
    choices: { never: 'Never', 'on-mains': 'On mains', 'while-serving': 'On battery too' },
  },
  pauseOnBattery: {
    title: 'Pause on battery',
    help: 'Nothing is published or started while this machine runs on battery; models stay in memory.',
  },
  applePowerEnabled: {
    title: 'Measure power',
    help: 'Watts of this Mac, measured while somebody looks. powermetrics needs the rule of sudo above.',
  },
  applePowerIntervalMs: {
    title: 'Measure power every',
    help: 'It is measured every 500ms, 1s, 2s, 5s or 10s; anything between means the next longer one.',
  },
  powerSource: {
    title: 'Measure power with',
    help: 'The powermetrics of macOS runs as root; macmon needs no root and has to be installed: brew install macmon.',
    choices: { powermetrics: 'powermetrics', macmon: 'macmon' },
  },
  macmon: {
    title: 'Path of macmon',
    help: 'Left empty: it is looked for in /opt/homebrew/bin, then in /usr/local/bin, and on Linux in PATH and in Homebrew’s folder.',
  },
  energyLedger: {
    title: 'Keep an energy ledger',
    help: 'Measures power also while nobody looks, every 10s, and counts tokens every minute, for the bars under Activity.',
  },
  energyPricePerKwh: {
    title: 'Price of a kilowatt-hour',
    help: 'Such as 0.32. Left empty: no costs are shown.',
  },
  energyCurrency: {
    title: 'Currency',
    help: 'What the price is in, such as EUR. Left empty: costs are shown without one.',
    wants: 'at most 8 letters or signs such as EUR or €',
  },
  serverLogBytes: {
    title: 'Size of a server log file',
    help: 'A file of this size is set aside, and the next one begun.',
  },
  serverLogFiles: {
    title: 'Older server log files to keep',
    help: 'How many that were set aside are kept for each server.',
  },
  logLevel: {
    title: "Detail of the agent's log",
    help: 'What the agent writes into its own log.',
    choices: { debug: 'Everything', info: 'Usual', warn: 'Warnings', error: 'Errors' },
  },
}
