import { readdir, readlink } from 'node:fs/promises'
import type { PortHolder } from './platform.ts'
import { allPids, readNow, readProc, unlessGone } from './proc-reads.ts'
import { parseListeningInodes } from './proc-files.ts'

export async function listeningInodes(port: number, host?: string): Promise<Set<string>> {
  return new Set((await tcpTables()).flatMap((table) => parseListeningInodes(table, port, host)))
}

export async function tcpTables(): Promise<string[]> {
  const tables = await Promise.all([readProc('/proc/net/tcp'), readProc('/proc/net/tcp6')])
  return tables.map((table) => table ?? '')
}

/** Which of these processes have which of the sockets open. */
export async function heldBy(
  pids: readonly number[],
  inodes: ReadonlySet<string>,
): Promise<{ pids: number[]; found: ReadonlySet<string> }> {
  const held = await Promise.all(pids.map(async (pid) => ({ pid, inodes: await socketInodes(pid, inodes) })))
  const holders = held.filter((process) => process.inodes.length > 0)
  return { pids: holders.map(({ pid }) => pid), found: new Set(holders.flatMap((process) => process.inodes)) }
}

/** Those of `wanted` that the process has open; none where we may not look. */
async function socketInodes(pid: number, wanted: ReadonlySet<string>): Promise<string[]> {
  const directory = `/proc/${pid}/fd`
  const descriptors = (await unlessGone(readdir(directory))) ?? []
  const targets = await Promise.all(descriptors.map((descriptor) => unlessGone(readlink(`${directory}/${descriptor}`))))
  return targets.flatMap((target) => {
    const inode = target === undefined ? undefined : /^socket:\[(\d+)\]$/.exec(target)?.[1]
    return inode !== undefined && wanted.has(inode) ? [inode] : []
  })
}

/** Looks through every process: only asked when something is in the way. */
export async function holdersOf(inodes: ReadonlySet<string>): Promise<PortHolder[]> {
  const holders = await Promise.all(
    allPids().map(async (pid): Promise<PortHolder | undefined> => {
      if ((await socketInodes(pid, inodes)).length === 0) return undefined
      const command = readNow(`/proc/${pid}/comm`)
      return command === undefined ? { pid } : { pid, command: command.trim() }
    }),
  )
  const known = holders.filter((holder) => holder !== undefined)
  return known.length > 0 ? known : [{}]
}
