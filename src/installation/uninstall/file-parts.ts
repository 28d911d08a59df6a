import path from 'node:path'
import type { TraceKind } from '../../contract/uninstall.ts'
import { keepsGoPlist, migrationFolder } from '../migration/record.ts'
import { lookAt, bytesOf, namesIn, removeAll, removeIfEmpty } from './own-files.ts'
import { kindInStateFolder, macHomeRows } from './trace-table.ts'
import type { TracePart } from './trace-part.ts'

export interface FilePlaces {
  readonly platform: 'darwin' | 'linux'
  readonly homeDir: string
  readonly stateDir: string
  readonly userId: number
  /** Of the state folder where its path is too long for it; absent = in the folder. */
  readonly socketFile: string
  /** Files that the agent's log was sent to, wherever that is. */
  readonly logFiles: readonly string[]
  /** Of models that lie in the state folder: the model store, by its name. */
  readonly storeName: string | undefined
  /** Names in the state folder that this process has open itself; they are removed when it has ended. */
  readonly inUse: readonly string[]
}

/** What consists of files with names of ours; what has another name in the same folder is left alone. */
export const fileParts = (places: FilePlaces): TracePart[] =>
  (['token', 'crashReports', 'appData', 'logs', 'settings', 'state'] as const).map((kind) => filePart(kind, places))

function filePart(kind: TraceKind, places: FilePlaces): TracePart {
  const used = places.inUse.map((name) => path.join(places.stateDir, name))
  return {
    kind,
    look: async () => {
      const files = await filesOf(kind, places)
      const now = files.filter((file) => !used.includes(file))
      const later = files.filter((file) => used.includes(file))
      const found = now.map(async (file) => ({ path: file, bytes: await bytesOf(file) }))
      const others = kind === 'state' ? [...(await strangers(places)), ...(await openMove(places))] : []
      const stays = [...later.map((file) => `${file} goes when the app has ended.`), ...others]
      return files.length === 0 && stays.length === 0 ? undefined : { places: await Promise.all(found), stays }
    },
    remove: async () => {
      const files = await filesOf(kind, places)
      await removeAll(files.filter((file) => !used.includes(file)))
      for (const folder of ownFolders(kind, places)) await removeIfEmpty(folder)
    },
  }
}

async function filesOf(kind: TraceKind, places: FilePlaces): Promise<string[]> {
  const { stateDir, userId, homeDir, platform, socketFile, logFiles } = places
  const names = await namesIn(stateDir)
  const isHeld = kind === 'state' && (await keepsGoPlist(stateDir))
  const inState = names
    .filter((name) => kindInStateFolder(name) === kind)
    .map((name) => path.join(stateDir, name))
    .filter((file) => !isHeld || file !== migrationFolder(stateDir))
  const isLeftEmpty = kind === 'state' && names.length === 0 && (await lookAt(stateDir))?.isDirectory() === true
  const rows = platform === 'darwin' ? macHomeRows.filter((row) => row.kind === kind) : []
  const inHome = rows.map(async ({ folder, name: isOurs }) => {
    const there = await namesIn(path.join(homeDir, folder))
    return there.filter((name) => isOurs.test(name)).map((name) => path.join(homeDir, folder, name))
  })
  const socketFolder = path.dirname(socketFile)
  const isOutside = kind === 'state' && socketFolder !== path.resolve(stateDir)
  const outside = isOutside ? await lookAt(socketFolder) : undefined
  // In a temporary folder another user may have made it.
  const socket = outside?.isDirectory() === true && outside.uid === userId
  const logs = kind === 'logs' ? await Promise.all(logFiles.map(partsOfLog)) : []
  return [
    ...new Set([
      ...inState,
      ...(await Promise.all(inHome)).flat(),
      ...logs.flat(),
      ...(socket ? [socketFolder] : []),
      ...(isLeftEmpty ? [stateDir] : []),
    ]),
  ]
}

/** A log, its earlier files and its lock. */
async function partsOfLog(file: string): Promise<string[]> {
  const folder = path.dirname(file)
  const base = path.basename(file)
  const isPart = (name: string) => name.startsWith(base) && /^(?:\.\d+|\.lock)?$/.test(name.slice(base.length))
  const parts = (await namesIn(folder)).filter(isPart).map((name) => path.join(folder, name))
  // A folder or a device such as /dev/null is no log, whoever named it.
  const facts = await Promise.all(parts.map(lookAt))
  return parts.filter((_, index) => facts[index]?.isFile() === true || facts[index]?.isSymbolicLink() === true)
}

function ownFolders(kind: TraceKind, { homeDir, stateDir, platform }: FilePlaces): string[] {
  // Whichever is removed last leaves it empty.
  if (platform !== 'darwin') return [stateDir]
  const own = macHomeRows.filter((row) => row.kind === kind && row.isOwnFolder === true)
  return [stateDir, ...own.map(({ folder }) => path.join(homeDir, folder))]
}

/** The only copy of a plist that is not ours is not removed by the way. */
const openMove = async ({ stateDir }: FilePlaces): Promise<string[]> =>
  (await keepsGoPlist(stateDir))
    ? [
        `${migrationFolder(stateDir)} has the plist of LLMKube's Go agent, which metal-agent migrate took out of its place: "metal-agent migrate --undo" puts it back, "metal-agent migrate --confirm" gives it up; then repeat this.`,
      ]
    : []

async function strangers({ stateDir, storeName }: FilePlaces): Promise<string[]> {
  const names = await namesIn(stateDir)
  return names
    .filter((name) => kindInStateFolder(name) === undefined && name !== storeName)
    .map((name) => `${path.join(stateDir, name)} is none of Metalbar's files, so it and its folder stay.`)
}
