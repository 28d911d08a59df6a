import { lstat, readdir, rm, rmdir } from 'node:fs/promises'
import path from 'node:path'
import { hasCode } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { shellCommand } from '../../contract/shell.ts'
import type { TraceKind, TracePlace } from '../../contract/uninstall.ts'

/** The id of the app's bundle, by which macOS names what it keeps for the app. */
export const bundleId = 'dev.metalbar.app'
export const appName = 'Metalbar'
/** As Electron calls the key of its safeStorage. */
export const keychainService = `${appName} Safe Storage`

export interface TraceRow {
  readonly what: string
  readonly isChosen: boolean
}

export const traceTable: Readonly<Record<TraceKind, TraceRow>> = {
  service: { what: 'The service that starts the agent', isChosen: true },
  servers: { what: 'Model servers that an agent left running', isChosen: true },
  applications: { what: 'Models and InferenceServices that were added with Metalbar', isChosen: false },
  cluster: { what: 'What this machine published in the cluster', isChosen: true },
  loginItem: { what: 'Opening at login', isChosen: true },
  sudoRule: { what: 'The rule of sudo that lets power be measured', isChosen: true },
  commandLink: { what: 'The link to the command metal-agent', isChosen: true },
  models: { what: 'Downloaded models', isChosen: false },
  token: { what: 'The Hugging Face token, encrypted', isChosen: true },
  keychain: { what: 'The key of the token in the keychain', isChosen: true },
  macPreferences: { what: 'What macOS remembers for the app', isChosen: true },
  crashReports: { what: 'Crash reports', isChosen: true },
  appData: { what: 'Windows, caches and downloaded updates of the app', isChosen: true },
  logs: { what: 'Logs of the agent and of its servers', isChosen: true },
  settings: { what: 'Settings and preferences', isChosen: true },
  state: { what: 'State: identity, history, energy, holds', isChosen: true },
}

/** Every name in the state folder: a file, or a folder with all that is in it. */
export const stateNames: Readonly<Record<string, TraceKind>> = {
  'preferences.json': 'settings',
  'settings.json': 'settings',
  'start-settings.json': 'settings',
  'cluster.json': 'settings',
  'hub-token.encrypted': 'token',
  chromium: 'appData',
  'metalbar.log': 'logs',
  'metalbar.old.log': 'logs',
  runs: 'logs',
  // Servers of earlier builds, when runs had no folder of their own.
  work: 'logs',
  logs: 'logs',
  service: 'logs',
  'agent.lock': 'state',
  'agent.sock': 'state',
  'node.json': 'state',
  'ledger.json': 'state',
  'absences.json': 'state',
  'holds.json': 'state',
  'memory.json': 'state',
  'history.jsonl': 'state',
  'energy.json': 'state',
  'panic-fuse.json': 'state',
  'model-store.json': 'state',
  'log-file.json': 'state',
  'update.json': 'state',
  migration: 'state',
  // Copies of the command, which the service starts.
  versions: 'state',
}

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
/** Set aside because it was broken, left by a killed write, or a lock that was just taken. */
const variant = new RegExp(String.raw`^(.+?)(?:\.broken-\d+|\.\d+|\.(?:stale-)?${uuid})$`)
/** A service's file that a person had changed. */
const isKeptAside = (name: string): boolean =>
  name.endsWith('.kept') && /\.(?:plist|service)\./.test(name.slice(0, -'.kept'.length))

/** The kind of trace that a name in the state folder is; undefined where it is not ours. */
export function kindInStateFolder(name: string): TraceKind | undefined {
  const known = (of: string): TraceKind | undefined => (Object.hasOwn(stateNames, of) ? stateNames[of] : undefined)
  const [, base = ''] = variant.exec(name) ?? []
  return known(name) ?? known(base) ?? (isKeptAside(name) ? 'state' : undefined)
}

/** What is written elsewhere in the home folder of a Mac: names in a folder. */
export interface HomeRow {
  readonly kind: TraceKind
  /** Below the home folder. */
  readonly folder: string
  readonly name: RegExp
  /** The folder has no other use, and goes when it is empty. */
  readonly isOwnFolder?: boolean
}

const id = bundleId.replaceAll('.', String.raw`\.`)

export const macHomeRows: readonly HomeRow[] = [
  // The service's log, which the agent writes, and what launchd catches of its output.
  {
    kind: 'logs',
    folder: 'Library/Logs/Metalbar',
    name: /^metal-agent(?:\.err)?\.log(?:\.\d+|\.lock)?$/,
    isOwnFolder: true,
  },
  // By macOS, by Squirrel, which replaces the app, and by electron-updater.
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

/** Where an app, whatever it is called and wherever it was, has its command. */
export const insideAnApp = /\.app\/Contents\/Resources\/bin\/metal-agent$/

/** One sentence: what was not removed, why, and what to do. */
export class UninstallError extends Error {
  override readonly name = 'UninstallError'
}

/** What a look has found. */
export interface Found {
  /** What is removed. */
  readonly places: readonly TracePlace[]
  /** What is left alone, one sentence each. */
  readonly stays?: readonly string[]
  /** Lines for a shell that remove the places. Absent = `rm` of each. */
  readonly byHand?: readonly string[]
}

/** Looks for one kind of trace, and removes what a look finds. */
export interface TracePart {
  readonly kind: TraceKind
  /** Undefined where there is nothing to say. Throws where that cannot be found out. */
  look(): Promise<Found | undefined>
  /** Removes all that {@link look} finds then. Throws with a sentence where some of it is left. */
  remove(): Promise<void>
}

const isMissing = (error: unknown): boolean => hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')

/** Names in a folder; none where there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).sort()
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

/** Undefined where there is nothing; a link is not followed. */
export async function lookAt(file: string) {
  try {
    return await lstat(file)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** The size of a file, or of all files of a folder; links count as nothing and are not followed. */
export async function bytesOf(file: string): Promise<number> {
  const found = await lookAt(file)
  if (found?.isDirectory() !== true) return found?.isFile() === true ? found.size : 0
  const below = (await namesIn(file)).map((name) => bytesOf(path.join(file, name)))
  return (await Promise.all(below)).reduce((sum, bytes) => sum + bytes, 0)
}

/** Files, links and folders with all that is in them; a link is removed and never followed. Throws UninstallError, after all of them were tried. */
export async function removeAll(files: readonly string[]): Promise<void> {
  const failures: unknown[] = []
  for (const file of files) {
    await rm(file, { recursive: true, force: true }).catch((error: unknown) => failures.push(error))
  }
  if (failures.length === 0) return
  const others = failures.length === 1 ? '' : `, and ${failures.length - 1} more`
  throw new UninstallError(`It could not be removed (${messageOf(failures[0])}${others})`, { cause: failures[0] })
}

/** Leaves a folder that is not empty. */
export async function removeIfEmpty(folder: string): Promise<void> {
  await rmdir(folder).catch((error: unknown) => {
    const isUsed = ['ENOTEMPTY', 'EEXIST', 'EBUSY', 'EACCES', 'EPERM', 'EROFS'].some((code) => hasCode(error, code))
    if (!isUsed && !isMissing(error)) throw error
  })
}

export const removeByHand = (files: readonly string[], sudo = false): string[] =>
  files.map((file) => shellCommand([...(sudo ? ['sudo'] : []), 'rm', '-r', file]))
