import { formatBytes, formatMemory, formatNumber, formatShare, parseByteCount } from '../../contract/format.ts'
import type { EvictionPreview, PreviewedService } from '../../contract/memory.ts'
import { countsTexts, type SettingKind } from '../../contract/settings-table.ts'
import {
  boundsOf,
  editableRow,
  formatSetting,
  type SettingName,
  settingNames,
  type SettingOrigin,
  type SettingsPatch,
  type SettingView,
  spellingOf,
  type StartSettingView,
} from '../../contract/settings.ts'
import { type ByteUnit, type SettingSection, textOf } from '../settings-draft.ts'
import { runtimeTexts } from './runtime-settings.ts'
import { startSettingTexts } from './start-settings.ts'

const gib = 2 ** 30
/** GiB beside it, since that is what such a field is mostly written in. */
const size = (bytes: number) => (bytes >= gib ? formatMemory(bytes) : formatBytes(bytes))

const bounded = (name: SettingName, show: (value: number) => string): string => {
  const { min, max } = boundsOf(name)
  return `from ${show(min)} to ${show(max)}`
}

const wants: Readonly<Partial<Record<SettingKind, (name: SettingName) => string>>> = {
  duration: (name) => `a time ${bounded(name, (ms) => formatSetting('duration', ms))}, such as 30s, 2m or 1h30m`,
  bytes: (name) => `a size ${bounded(name, size)}, as a number with its unit`,
  count: (name) => `a whole number ${bounded(name, String)}`,
  fraction: (name) => `a fraction ${bounded(name, String)}, such as 0.75`,
  number: (name) => `a number ${bounded(name, formatNumber)}, such as 0.32`,
  path: () => 'an absolute path, which begins with /, of at most 1000 characters',
  executable: () => 'an absolute path, which begins with /, of at most 1000 characters',
  switch: () => 'on or off',
  choice: () => 'one of those shown',
}

const origins: Readonly<Record<SettingOrigin, string>> = {
  default: 'default',
  flag: 'from the command line of the agent',
  startFile: 'from start-settings.json',
  person: 'chosen here',
}

export const settingWords = {
  title: 'Settings',
  atOnce: 'A change takes effect as soon as it is applied, unless the setting says otherwise.',
  sections: {
    cluster: 'Cluster',
    network: 'Network',
    memory: 'Memory',
    runtimes: 'Runtimes',
    models: 'Models',
    power: 'Power',
    general: 'General',
  } satisfies Record<SettingSection, string>,
  /** The value of one that cannot be set here. */
  value({ name, value }: Pick<SettingView, 'name' | 'value'>): string {
    if (value === null) return 'not set'
    const { kind } = editableRow(name)
    if (kind === 'bytes' && typeof value === 'number') return size(value)
    const text = formatSetting(kind, value)
    return settingTexts[name].choices?.[text] ?? text
  },
  titleOf: (name: SettingName) => settingTexts[name].title,
  choicesOf: (name: SettingName) => settingTexts[name].choices,
  help(name: SettingName): string {
    const { counts } = editableRow(name)
    const when = counts === 'now' ? '' : ` A change ${countsTexts[counts]}.`
    return `${settingTexts[name].help}${when} On the command line: ${spellingOf(name)}.`
  },
  /** What was set, a sentence for each. */
  changed: (settings: SettingsPatch): string =>
    settingNames
      .flatMap((name) => {
        const value = settings[name]
        return value === undefined ? [] : [changeOf(name, value)]
      })
      .join(' '),
  problem: (name: SettingName) =>
    `It must be ${settingTexts[name].wants ?? wants[editableRow(name).kind]?.(name) ?? 'something else'}.`,
  unitOf: (title: string) => `Unit of ${title}`,
  units: {
    ...{ '': 'B', k: 'kB', M: 'MB', G: 'GB', T: 'TB' },
    ...{ Ki: 'KiB', Mi: 'MiB', Gi: 'GiB', Ti: 'TiB' },
  } satisfies Record<ByteUnit, string>,
  /** What the number and its unit come to. */
  isBytes: (bytes: number) => `= ${size(bytes)}.`,
  byStartFile: 'Set in start-settings.json; a value that is set here wins.',
  byFlag: 'Set on the command line of the agent, which wins: start the agent without that flag to set it here.',
  needsShell: 'A page in a browser cannot change this. Run in a terminal on this Mac:',
  command: (spelled: string) => `metal-agent settings set ${spelled} VALUE`,
  copyCommand: (spelled: string) => `Copy command for ${spelled}`,
  placeholder: 'default',
  choose: 'Choose…',
  chooseFor: (title: string) => `Choose for ${title}`,
  useDefault: 'Use the default',
  defaultOf: (title: string) => `Use the default of ${title}`,
  /** At a field that a person has written in. */
  conflict: (view: SettingView) =>
    `It was set to ${textOf(view) || 'the default'} elsewhere in the meantime; Apply replaces that with what you wrote.`,
  take: 'Take that',
  takeOf: (title: string) => `Take that for ${title}`,
  willBeDefault: 'The default, once applied.',
  revert: 'Revert',
  apply: 'Apply',
  changes(count: number, problems: number): string {
    if (problems > 0) return problems === 1 ? '1 field is not right.' : `${problems} fields are not right.`
    return count === 0 ? 'No changes' : count === 1 ? '1 change, not applied' : `${count} changes, not applied`
  },
  fromStart: 'Set when the agent starts',
  startTitle: ({ name }: StartSettingView) => startSettingTexts[name].title,
  startHelp: ({ name }: StartSettingView) => startSettingTexts[name].help,
  startValue({ name, value, from }: StartSettingView): string {
    const { none = 'none', isBytes = false } = startSettingTexts[name]
    const bytes = isBytes ? parseByteCount(value) : undefined
    const text = value === '' ? none : bytes === undefined ? value : size(bytes)
    return `${text} · ${origins[from]}`
  },
  why: 'Why not here',
  startWhy({ name, line }: StartSettingView, startFile: string | undefined): string {
    const { elsewhere } = startSettingTexts[name]
    if (startFile === undefined)
      return `${elsewhere ?? 'It is read when the agent starts, so it cannot be changed while the agent runs.'} Start the agent with:`
    if (line === undefined) return elsewhere ?? 'It is read when the agent starts, and the app sets it.'
    return `${elsewhere ?? 'It is read when the agent starts, so it cannot be changed while the agent runs.'} Add this line to ${startFile} and open the app again:`
  },
  copyStart: (view: StartSettingView) => `Copy line for ${startSettingTexts[view.name].title}`,
} as const

function changeOf(name: SettingName, value: SettingView['value']): string {
  const { counts: from, startsAs } = editableRow(name)
  const text = settingWords.value({ name, value })
  // A choice has a name of several words, which would run into the sentence.
  const set = settingTexts[name].choices === undefined ? `is set to ${text}` : `is now “${text}”`
  const emptied = startsAs === undefined ? 'is set back to the default' : 'is left empty'
  return `${settingTexts[name].title} ${value === null ? emptied : set} and ${countsTexts[from]}.`
}

/** Such as "a, b and c". */
const listed = (names: readonly string[]) =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`

/** The namespace only where it tells two of them apart. */
function namesIn(view: EvictionPreview) {
  const all = [...view.starts, ...view.evicted, ...view.unfit, ...view.waits]
  return ({ namespace, name, bytes }: PreviewedService) => {
    const isShared = all.some((one) => one.name === name && one.namespace !== namespace)
    return `${isShared ? `${namespace}/` : ''}${name} (${formatBytes(bytes)})`
  }
}

const verb = (services: readonly unknown[], one: string, many: string) => (services.length === 1 ? one : many)

/** One sentence for each thing that would happen. */
function consequences(view: EvictionPreview): string[] {
  const nameOf = namesIn(view)
  const winnerOf = (key: string) => {
    const winner = view.starts.find(({ namespace, name }) => `${namespace}/${name}` === key)
    return winner === undefined ? key : nameOf(winner)
  }
  const names = (services: readonly PreviewedService[]) => listed(services.map(nameOf))
  const split = (services: readonly PreviewedService[]) =>
    [true, false].map((isTooLarge) => services.filter((one) => (one.isTooLarge ?? false) === isTooLarge))
  const [unfitAlone = [], unfit = []] = split(view.unfit)
  const [neverFit = [], waits = []] = split(view.waits)
  const evictions = [...Map.groupBy(view.evicted, ({ winner = '' }) => winner)].map(
    ([winner, some]) =>
      `${names(some)} ${verb(some, 'leaves', 'leave')} memory, so that ${winnerOf(winner)} can start.`,
  )
  // Those that others give way to are named with them.
  const starts = view.starts.filter(
    ({ namespace, name }) => !view.evicted.some(({ winner }) => winner === `${namespace}/${name}`),
  )
  const sentences = [
    [starts, `${names(starts)} ${verb(starts, 'starts', 'start')}.`],
    [unfit, `${names(unfit)} ${verb(unfit, 'keeps', 'keep')} running, but would not start again beside the others.`],
    [
      unfitAlone,
      `${names(unfitAlone)} ${verb(unfitAlone, 'keeps', 'keep')} running, but would not start again at all.`,
    ],
    [waits, `${names(waits)} ${verb(waits, 'waits', 'wait')} for memory.`],
    [neverFit, `${names(neverFit)} ${verb(neverFit, 'does', 'do')} not fit, even alone.`],
  ] as const
  return [...evictions, ...sentences.flatMap(([services, sentence]) => (services.length > 0 ? [sentence] : []))]
}

export const budgetWords = {
  slider: 'Memory for models',
  share: (fraction: number, totalBytes: number) => `${formatShare(fraction)} · ${formatMemory(fraction * totalBytes)}`,
  ram: (bytes: number) => `memory ${formatMemory(bytes)}`,
  gpuLimit: (bytes: number) => `GPU limit ${formatMemory(bytes)}`,
  bytesCount: 'A fixed amount is set, which replaces the fraction.',
  preview: 'Once applied',
  looking: 'Checking what that would do…',
  /** The first says what the budget would be. */
  lines(view: EvictionPreview): readonly string[] {
    const what = consequences(view)
    const nothing = `No service is affected now; models hold ${formatBytes(view.modelsBytes)}.`
    return [`Budget ${view.budgetHow}.`, ...(what.length > 0 ? what : [nothing])]
  },
} as const

interface SettingText {
  readonly title: string
  /** What it does, and what its special values mean. */
  readonly help: string
  /** Completes "It must be …" where the kind of the value and its bounds do not say it all. */
  readonly wants?: string
  /** Labels of a setting that is one of a few values. */
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
  ...runtimeTexts,
  drainLimitMs: {
    title: 'Time for requests to finish',
    help: 'How long a stopping server may take to finish requests. 0s cuts them off.',
  },
  startupStallMs: {
    title: 'Longest wait for a model that loads',
    help: 'A server that makes no progress for this long while it loads its model is restarted.',
  },
  downloadBytesPerSecond: {
    title: 'Download limit per second',
    help: 'How much all downloads together may fetch per second. 0 = no limit.',
  },
  downloadsAtOnce: {
    title: 'Downloads at the same time',
    help: 'How many models are downloaded at once; the others wait.',
  },
  hubEndpoint: {
    title: 'Hugging Face address',
    help: 'The address of the Hugging Face Hub or of a mirror; the token is sent there. Left empty: $HF_ENDPOINT, then https://huggingface.co.',
    wants: 'an http:// or https:// address of at most 1000 characters',
  },
  hubTokenFile: {
    title: 'Hugging Face token file',
    help: 'A file that contains only the token. Left empty: the token that the app keeps, then $HF_TOKEN, then the file that hf auth login writes.',
  },
  caFile: {
    title: 'Certificate authorities',
    help: 'A PEM file of certificate authorities that downloads trust in addition to the usual ones. Left empty: only the usual ones.',
  },
  diskReserveBytes: {
    title: 'Disk space to leave free',
    help: 'A download that would leave less free space than this on the disk of the model folder does not start. 0 = 1 % of the disk, at most 2 GiB (2.1 GB).',
  },
  partialKeepMs: {
    title: 'Keep partial downloads for',
    help: 'How long an interrupted download is kept so that it can resume; then it is deleted.',
  },
  refreshEveryMs: {
    title: 'Look for changed models every',
    help: 'How often the source of a Model with refreshPolicy OnChange is checked for changes.',
  },
  memoryFraction: {
    title: 'Fraction of memory for models',
    help: 'How much memory all models together may use, as a fraction of all memory: 0.5 is half. 0 = automatic: 0.67, above 38.7 GB (36 GiB) of memory 0.75, from 137 GB (128 GiB) 0.9.',
  },
  memoryBudgetBytes: {
    title: 'Fixed amount of memory for models',
    help: 'How much memory all models together may use, in place of the fraction above. Left empty: the fraction counts.',
  },
  memoryMarginBytes: {
    title: 'How far a model may outgrow its estimate',
    help: 'How much more memory a model may use than it was admitted with before you are warned. Left empty: 1 GiB or 15 %, whichever is more.',
  },
  memoryCheckMode: {
    title: 'Model with unknown memory need',
    help: 'What to do with a model whose memory need is not known before it runs.',
    choices: { enforce: 'Refuse it', warn: 'Let it start' },
  },
  evictionEnabled: {
    title: 'Evict models when memory runs out',
    help: 'When memory is critically short, the least important model is evicted; it comes back later.',
  },
  evictionShare: {
    title: 'Evict only when models use at least',
    help: 'A fraction of all memory: 0.5 is half. While models use less than this, other applications are the cause and no model is evicted.',
  },
  evictionAtAdmission: {
    title: 'Let important models displace others',
    help: 'A model of higher priority that does not fit may evict models of lower priority.',
  },
  comeBackMs: {
    title: 'Bring evicted models back after',
    help: 'How long memory pressure must be normal before an evicted model comes back.',
  },
  listen: {
    title: 'Where models listen',
    help: 'At all addresses, a model is open to every network of this machine without a password; at the published address alone it is as open to those who reach that. Behind the gateway it listens on this machine only, and the gateway checks each request at the published address and asks for an API key where the service names one.',
    choices: { all: 'At all addresses', published: 'At the published address', gateway: 'Behind the gateway' },
  },
  publish: {
    title: 'How pods reach a model',
    help: "Directly at this machine's address, or by the relay of LLMKube 0.10, which asks this machine over TLS: models then listen on this machine only. Automatic takes the relay where the cluster has one.",
    choices: { auto: 'Automatic', relay: "By LLMKube's relay", direct: 'Directly' },
  },
  probeImage: {
    title: 'Image of the probe',
    wants: 'the name of an image, such as busybox:1.37, of at most 300 characters',
    help: 'A Pod of this image asks a service from inside the cluster when you press that button in Help. Any image that has sh and wget; left empty, no Pod is made.',
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
    help: 'Measures the power of this Mac while somebody looks. powermetrics needs the sudo rule above.',
  },
  applePowerIntervalMs: {
    title: 'Measure power every',
    help: 'One of 500ms, 1s, 2s, 5s and 10s; any other value is rounded up to the next of these.',
  },
  powerSource: {
    title: 'Measure power with',
    help: 'The powermetrics of macOS runs as root; macmon does not, but has to be installed: brew install macmon.',
    choices: { powermetrics: 'powermetrics', macmon: 'macmon' },
  },
  macmon: {
    title: 'Path of macmon',
    help: 'Left empty: it is looked for in /opt/homebrew/bin, then in /usr/local/bin, and on Linux in PATH and in Homebrew’s folder.',
  },
  energyLedger: {
    title: 'Keep an energy ledger',
    help: 'Also measures power while nobody looks, every 10s, and counts tokens every minute, for the chart under Activity.',
  },
  energyPricePerKwh: { title: 'Price of a kilowatt-hour', help: 'Such as 0.32. Left empty: no costs are shown.' },
  energyCurrency: {
    title: 'Currency',
    help: 'What the price is in, such as EUR. Left empty: costs are shown without one.',
    wants: 'at most 8 letters or signs such as EUR or €',
  },
  serverLogBytes: {
    title: 'Size of a server log file',
    help: 'A log file that reaches this size is closed, and a new one begins.',
  },
  serverLogFiles: {
    title: 'Older server log files to keep',
    help: 'How many older log files are kept for each server.',
  },
  logLevel: {
    title: "Detail of the agent's log",
    help: 'How much the agent writes to its own log.',
    choices: { debug: 'Everything', info: 'Usual', warn: 'Warnings', error: 'Errors' },
  },
}
