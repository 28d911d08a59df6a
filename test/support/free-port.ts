import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/** Below what Linux (32768) and macOS (49152) hand out by themselves, so that no test that asks for any port meets one of these. */
const firstPort = 20_000
const blocks = 200
const blockSize = 50

interface Block {
  readonly from: number
  next: number
}

/** Ports for this process alone, for as long as it listens on the first of them. */
let block: Promise<Block> | undefined

/** A port of this machine that nothing listens on now, and that is given to nobody else while this process runs. */
export async function freePort(): Promise<number> {
  return freePorts(1)
}

/** @returns the first of so many of them in a row. */
export async function freePorts(count: number): Promise<number> {
  for (;;) {
    block ??= ownBlock()
    const mine = block
    const own = await mine
    const first = own.next
    own.next += count
    if (own.next > own.from + blockSize) {
      if (block === mine) block = undefined
    } else if (await areFree(first, count)) {
      return first
    }
  }
}

async function ownBlock(): Promise<Block> {
  for (let tries = 0; tries < blocks; tries++) {
    const from = firstPort + ((process.pid + tries) % blocks) * blockSize
    const guard = await listener(from)
    guard?.unref()
    if (guard) return { from, next: from + 1 }
  }
  throw new Error(`No ports from ${firstPort} on are free.`)
}

async function areFree(first: number, count: number): Promise<boolean> {
  for (let port = first; port < first + count; port++) {
    const server = await listener(port)
    if (!server) return false
    server.close()
    await once(server, 'close')
  }
  return true
}

/** On every address; undefined where somebody listens there. */
async function listener(port: number): Promise<Server | undefined> {
  const server = createServer()
  try {
    await once(server.listen(port, '0.0.0.0'), 'listening')
    return server
  } catch {
    return undefined
  }
}
