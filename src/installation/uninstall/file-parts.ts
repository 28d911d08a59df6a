import path from 'node:path'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { TraceKind } from '../../contract/uninstall.ts'
import { lookAt, namesIn, removeBelow, removeIfEmpty } from '../files.ts'
import { bundleId, sized, UninstallError, type Found, type TracePart } from './traces.ts'

/** Every name in the state folder by what it is: a file, or a folder with all that is in it. */
export const stateNames = {
  settings: ['preferences.json', 'settings.json', 'start-settings.json', 'cluster.json'],
  token: ['hub-token.encrypted'],
  appData: ['chromium'],
  logs: ['metalbar.log', 'runs', 'gateway.log'],
  state: [
    ...[
      'agent.lock',
      'agent.sock',
      'gateway.sock',
      'gateway.pid',
      'node.json',
      'ledger.json',
      'absences.json',
      'metrics-token',
    ],
    ...['history.jsonl', 'model-store.json', 'log-file.json', 'update.json'],
    // `command` has the copy of the command that the service and the app start.
    // `runtimes` has those that were installed below this folder.
    // `daemons` has what belongs to those that the agent starts.
    // `ingress` has the key by which the relays of a cluster know this machine.
    ...['command', 'runtimes', 'daemons', 'ingress'],
  ],
} as const satisfies Partial<Record<TraceKind, readonly string[]>>

const kindByName = new Map<string, TraceKind>(
  Object.entries(stateNames).flatMap(([kind, names]) => names.map((name) => [name, kind as keyof typeof stateNames])),
)

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
/** Set aside because it was broken, left by a killed write, or a lock that was just taken. */
const variant = new RegExp(String.raw`^(.+?)(?:\.broken-\d+|\.\d+|\.(?:stale-)?${uuid})$`)

/** The kind of trace that a name in the state folder is; undefined where it is not ours. */
export function kindInStateFolder(name: string): TraceKind | undefined {
  const [, base = name] = variant.exec(name) ?? []
  return kindByName.get(name) ?? kindByName.get(base)
}

/** Names in a folder elsewhere in the home folder of a Mac. */
interface HomeRow {
  readonly kind: TraceKind
  /** Below the home folder. */
  readonly folder: string
  readonly name: RegExp
  /** The folder has no other use, and goes when it is empty. */
  readonly isOwnFolder?: boolean
}

const id = bundleId.replaceAll('.', String.raw`\.`)

const macHomeRows: readonly HomeRow[] = [
  // The service's log, which the agent writes, and what launchd catches of its output.
  {
    kind: 'logs',
    folder: 'Library/Logs/Metalbar',
    name: /^metal-agent(?:\.err)?\.log(?:\.\d+|\.lock)?$/,
    isOwnFolder: true,
  },
  // Written by macOS, by Squirrel, which replaces the app, and by electron-updater.
  { kind: 'appData', folder: 'Library/Caches', name: new RegExp(`^(?:${id}(?:\\.ShipIt)?|metalbar-updater)$`) },
  { kind: 'appData', folder: 'Library/HTTPStorages', name: new RegExp(`^${id}(?:\\.binarycookies)?$`) },
  { kind: 'appData', folder: 'Library/WebKit', name: new RegExp(`^${id}$`) },
  { kind: 'appData', folder: 'Library/Saved Application State', name: new RegExp(`^${id}\\.savedState$`) },
  { kind: 'macPreferences', folder: 'Library/Preferences/ByHost', name: new RegExp(`^${id}\\.[^/]+\\.plist$`) },
  {
    kind: 'crashReports',
    folder: 'Library/Logs/DiagnosticReports',
    name: /^(?:Metalbar(?: Helper(?: \([^)]+\))?)?|metal-agent)[-_][^/]*\.(?:ips|crash|diag|hang|spin)$/,
  },
  {
    kind: 'crashReports',
    folder: 'Library/Application Support/CrashReporter',
    name: /^(?:Metalbar(?: Helper(?: \([^)]+\))?)?|metal-agent)_[^/]*\.plist$/,
  },
]

/** Files of one kind in the home folder of a Mac. */
export async function filesInMacHome(kind: TraceKind, homeDir: string): Promise<string[]> {
  const found = macHomeRows
    .filter((row) => row.kind === kind)
    .map(async ({ folder, name: isOurs }) => {
      const names = await namesIn(path.join(homeDir, folder))
      return names.filter((name) => isOurs.test(name)).map((name) => path.join(homeDir, folder, name))
    })
  return (await Promise.all(found)).flat()
}

export interface FilePlaces {
  readonly platform: 'darwin' | 'linux'
  readonly homeDir: string
  readonly stateDir: string
  readonly userId: number
  /** The agent's socket: in the state folder, or elsewhere where that path is too long for a socket. */
  readonly socketFile: string
  /** Files that the agent's log was sent to, wherever that is. */
  readonly logFiles: readonly string[]
  readonly stores: readonly string[]
  /** Names in the state folder that this process has open itself; they are removed when it has ended. */
  readonly inUse: readonly string[]
}

/** Traces that are files with names of ours; what has another name in the same folder is left alone. */
export const fileParts = (places: FilePlaces): TracePart[] =>
  (['token', 'crashReports', 'appData', 'logs', 'settings', 'state'] as const).map((kind) => ({
    kind,
    look: () => lookAtFiles(kind, places),
  }))

async function lookAtFiles(kind: TraceKind, places: FilePlaces): Promise<Found> {
  const { stateDir, homeDir, platform, logFiles, inUse } = places
  const isState = kind === 'state'
  const inState = (await namesIn(stateDir)).filter((name) => kindInStateFolder(name) === kind)
  const inHome = platform === 'darwin' ? await filesInMacHome(kind, homeDir) : []
  const logs = kind === 'logs' ? (await Promise.all(logFiles.map(partsOfLog))).flat() : []
  const others = isState ? await besidesState(places) : []
  const all = [...new Set([...inState.map((name) => path.join(stateDir, name)), ...inHome, ...logs, ...others])]
  const open = inUse.map((name) => path.join(stateDir, name))
  const files = all.filter((file) => !open.includes(file))
  return {
    places: await sized(files),
    stays: [
      ...all.filter((file) => open.includes(file)).map((file) => `${file} is removed once the app has ended.`),
      ...(isState ? await strangers(places) : []),
    ],
    remove: async () => {
      await removeAll(files)
      const own = macHomeRows.filter((row) => row.kind === kind && row.isOwnFolder === true)
      // Whichever kind is removed last leaves the state folder empty.
      for (const folder of [stateDir, ...own.map((row) => path.join(homeDir, row.folder))]) await removeIfEmpty(folder)
    },
  }
}

/** The folder of a socket whose path would be too long in the state folder, and a state folder without entries. */
async function besidesState({ stateDir, socketFile, userId }: FilePlaces): Promise<string[]> {
  const socketFolder = path.dirname(socketFile)
  const isOutside = socketFolder !== path.resolve(stateDir)
  const outside = isOutside ? await lookAt(socketFolder) : undefined
  // Another user may have made it in a temporary folder.
  const isOurs = outside?.isDirectory() === true && outside.uid === userId
  const isLeftEmpty = (await lookAt(stateDir))?.isDirectory() === true && (await namesIn(stateDir)).length === 0
  return [...(isOurs ? [socketFolder] : []), ...(isLeftEmpty ? [stateDir] : [])]
}

async function strangers({ stateDir, stores }: FilePlaces): Promise<string[]> {
  const isStore = (file: string) => stores.some((store) => path.resolve(store) === path.resolve(file))
  const names = (await namesIn(stateDir)).filter((name) => kindInStateFolder(name) === undefined)
  const files = names.map((name) => path.join(stateDir, name)).filter((file) => !isStore(file))
  return files.map((file) => `${file} is not one of Metalbar's files, so it and its folder stay.`)
}

/** A log, its earlier files and its lock. */
async function partsOfLog(file: string): Promise<string[]> {
  const folder = path.dirname(file)
  const base = path.basename(file)
  const isPart = (name: string) => name.startsWith(base) && /^(?:\.\d+|\.lock)?$/.test(name.slice(base.length))
  const parts = (await namesIn(folder)).filter(isPart).map((name) => path.join(folder, name))
  // A folder or a device such as /dev/null is not a log.
  const facts = await Promise.all(parts.map(lookAt))
  return parts.filter((_, index) => facts[index]?.isFile() === true || facts[index]?.isSymbolicLink() === true)
}

/** All of them are tried, with what is in them; folders below `root` that are empty then go too. Throws UninstallError. */
export async function removeAll(files: readonly string[], root?: string): Promise<void> {
  const failures: unknown[] = []
  for (const file of files) {
    await removeBelow(root ?? path.dirname(file), file).catch((error: unknown) => failures.push(error))
  }
  if (failures.length === 0) return
  const others = failures.length === 1 ? '' : `, and ${failures.length - 1} more`
  throw new UninstallError(`It could not be removed (${messageOf(failures[0])}${others})`, { cause: failures[0] })
}
