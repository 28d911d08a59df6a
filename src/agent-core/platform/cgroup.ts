/** One level of the cgroup tree that we are in, with the files that say how much memory it may have and has. */
export interface CgroupFolder {
  readonly folder: string
  readonly files: CgroupFiles
}

interface CgroupFiles {
  readonly limit: string
  readonly usage: string
  /** A line of memory.stat that counts the levels below as well. */
  readonly inactiveFile: string
}

const version1: CgroupFiles = {
  limit: 'memory.limit_in_bytes',
  usage: 'memory.usage_in_bytes',
  inactiveFile: 'total_inactive_file',
}

const version2: CgroupFiles = { limit: 'memory.max', usage: 'memory.current', inactiveFile: 'inactive_file' }

interface Hierarchy {
  readonly root: string
  readonly mountPoint: string
}

/**
 * The folders of the cgroup of this process and of all above it, innermost first, from /proc/self/cgroup and
 * /proc/self/mountinfo: of cgroup v1 where that has the memory controller, else of v2. Every one may have a limit.
 */
export function cgroupFolders(membership: string, mounts: string): CgroupFolder[] {
  const path1 = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(\/.*)$/m.exec(membership)?.[1]
  const path2 = unifiedPath(membership)
  const [path, mount, files] =
    path1 === undefined
      ? [path2, hierarchy(mounts, 'cgroup2'), version2]
      : [path1, hierarchy(mounts, 'cgroup', 'memory'), version1]
  if (path === undefined || mount === undefined) return []
  return foldersUpwards(path, mount).map((folder) => ({ folder, files }))
}

/** Where cgroup v2 tells how long its members waited for memory; undefined at the root, which has no such file. */
export function cgroupPressureFile(membership: string, mounts: string): string | undefined {
  const [path, mount] = [unifiedPath(membership), hierarchy(mounts, 'cgroup2')]
  if (path === undefined || path === '/' || mount === undefined) return undefined
  return `${foldersUpwards(path, mount)[0] ?? mount.mountPoint}/memory.pressure`
}

export interface CgroupMemory {
  readonly limitBytes: number
  readonly availableBytes: number
}

/**
 * From the files of one level; undefined where it sets no limit. Clean pages of files that were not used for a while can
 * be taken back at once, so they count as available although they are in use.
 */
export function cgroupMemory(
  { files }: CgroupFolder,
  texts: { limit: string | undefined; usage: string | undefined; stat: string | undefined },
): CgroupMemory | undefined {
  const [limitBytes, usedBytes] = [wholeNumber(texts.limit), wholeNumber(texts.usage)]
  if (limitBytes === undefined || usedBytes === undefined) return undefined
  const reclaimable = wholeNumber(new RegExp(`^${files.inactiveFile} (\\d+)$`, 'm').exec(texts.stat ?? '')?.[1]) ?? 0
  return { limitBytes, availableBytes: Math.min(limitBytes, Math.max(0, limitBytes - usedBytes + reclaimable)) }
}

const unifiedPath = (membership: string): string | undefined => /^0::(\/.*)$/m.exec(membership)?.[1]

/** "max", which stands for no limit, is not a number. */
function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text.trim()) ? Number(text) : undefined
}

/** In a line of mountinfo the root and the mount point are fields 4 and 5; type, source and options follow " - ". */
function hierarchy(mounts: string, type: string, controller?: string): Hierarchy | undefined {
  for (const line of mounts.split('\n')) {
    const [before = '', after = ''] = line.split(' - ')
    const [fileSystem, , options = ''] = after.split(' ')
    if (fileSystem !== type) continue
    if (controller !== undefined && !options.split(',').includes(controller)) continue
    const [, , , root, mountPoint] = before.split(' ')
    if (root !== undefined && mountPoint !== undefined) return { root, mountPoint }
  }
  return undefined
}

/** A container may see only its own part of the tree: where our path is not below what is mounted, the mount is ours. */
function foldersUpwards(path: string, { root, mountPoint }: Hierarchy): string[] {
  const prefix = root === '/' ? '' : root
  const isBelow = path === root || path.startsWith(`${prefix}/`)
  const parts = isBelow ? path.slice(prefix.length).split('/').filter(Boolean) : []
  return Array.from({ length: parts.length + 1 }, (_, dropped) =>
    [mountPoint, ...parts.slice(0, parts.length - dropped)].join('/'),
  )
}
