import type { ChildProcess } from 'node:child_process'
import { Server } from 'node:net'
import { z } from 'zod'
import { allRoutes } from '../contract/gateway.ts'
import type { Address } from './listeners.ts'

/** How long a successor may take to start, and then to take everything: it usually needs a fraction of a second. */
const usualLimits = { readyMs: 15_000, servingMs: 5_000 }

/** Everything that the agent has sent so far, as one frame. */
export type Told = z.infer<typeof allRoutes>

/** Messages to the successor. The first two carry a handle. */
const toSuccessor = z.discriminatedUnion('type', [
  z.object({ type: z.literal('listener'), host: z.string().max(100), port: z.int() }),
  z.object({ type: z.literal('agents') }),
  z.object({ type: z.literal('all'), told: allRoutes.optional() }),
])

/** What a gateway gives to the one that takes its place. */
interface Estate {
  readonly listeners: readonly { readonly address: Address; readonly server: Server }[]
  /** The socket at which agents connect. */
  readonly agents: Server
  readonly told: Told | undefined
}

/**
 * Starts the gateway that takes this one's place, and gives it what this one listens with: until the successor says that it serves, both do.
 * Throws if the successor does not get that far within the limits; it is then killed, and this gateway keeps everything.
 */
export async function handOver(
  [program, ...args]: readonly [program: string, ...args: string[]],
  estate: Estate,
  { readyMs, servingMs } = usualLimits,
): Promise<void> {
  // Loaded when it is needed: most gateways start no process, and it takes memory.
  const { spawn } = await import('node:child_process')
  const child = spawn(program, args, { detached: true, stdio: ['ignore', 'inherit', 'inherit', 'ipc'], cwd: '/' })
  const ended = new Promise<never>((_resolve, reject) => {
    child.on('error', reject)
    child.once('exit', (code, signal) => reject(new Error(`it ended with ${signal ?? `code ${code}`}`)))
  })
  try {
    await inTime(readyMs, [said(child, 'ready'), ended])
    await inTime(servingMs, [giveAll(child, estate), ended])
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  } finally {
    if (child.connected) child.disconnect()
    child.unref()
  }
}

async function giveAll(child: ChildProcess, { listeners, agents, told }: Estate): Promise<void> {
  // Each handle is sent only after the successor has received the one before: one that hangs never does.
  for (const { address, server } of listeners) await give(child, { type: 'listener', ...address }, server)
  await give(child, { type: 'agents' }, agents)
  await Promise.all([said(child, 'serving'), give(child, { type: 'all', told })])
}

/** The other end of {@link handOver}. What is called takes its server in the same turn of the event loop: connections come from then on. */
interface Heir {
  listener(address: Address, server: Server): void
  agents(server: Server): void
  told(told: Told): void
}

/** Resolves when this process serves. Throws where its predecessor does not give it everything. */
export async function inherit(heir: Heir): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  const onDisconnect = (): void => reject(new Error('The gateway that this one replaces is gone.'))
  const onMessage = (message: unknown, handle: unknown): void => {
    try {
      const frame = toSuccessor.parse(message)
      if (frame.type === 'all') {
        if (frame.told) heir.told(frame.told)
        resolve(undefined)
      } else if (!(handle instanceof Server)) throw new Error(`A ${frame.type} came without its server.`)
      else if (frame.type === 'agents') heir.agents(handle)
      else heir.listener({ host: frame.host, port: frame.port }, handle)
    } catch (error) {
      reject(error instanceof Error ? error : new Error(String(error)))
    }
  }
  process.on('message', onMessage).once('disconnect', onDisconnect)
  process.send?.('ready')
  await promise
  process.off('message', onMessage).off('disconnect', onDisconnect)
  process.send?.('serving', () => process.disconnect())
}

function give(child: ChildProcess, frame: z.infer<typeof toSuccessor>, server?: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    child.send(frame, server, (error) => (error ? reject(error) : resolve()))
  })
}

function said(child: ChildProcess, word: string): Promise<void> {
  return new Promise((resolve) => {
    child.on('message', (message) => {
      if (message === word) resolve()
    })
  })
}

/** As the first of them; throws where none of them is settled within the limit. */
async function inTime(limitMs: number, works: readonly Promise<void>[]): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`it did not answer within ${limitMs / 1_000} s`)), limitMs)
  try {
    await Promise.race([...works, late])
  } finally {
    clearTimeout(timer)
  }
}
