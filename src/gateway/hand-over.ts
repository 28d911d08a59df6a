import { spawn, type ChildProcess } from 'node:child_process'
import { Server } from 'node:net'
import { z } from 'zod'
import { allRoutes } from '../contract/gateway.ts'
import type { Address } from './listeners.ts'

/** How long a successor may take to start, and then to take everything: it usually needs a fraction of a second. */
const readyMs = 15_000
const servingMs = 5_000

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
 * Throws if the successor does not get that far; it is then killed, and this gateway keeps everything.
 */
export async function handOver(
  [program, ...args]: readonly [program: string, ...args: string[]],
  { listeners, agents, told }: Estate,
): Promise<void> {
  const child = spawn(program, args, { detached: true, stdio: ['ignore', 'inherit', 'inherit', 'ipc'], cwd: '/' })
  const failed = new Promise<Error>((resolve) => {
    child.on('error', resolve)
    child.once('exit', (code, signal) => resolve(new Error(`it ended with ${signal ?? `code ${code}`}`)))
  })
  try {
    await said(child, 'ready', { failed, limitMs: readyMs })
    for (const { address, server } of listeners) await give(child, { type: 'listener', ...address }, server)
    await give(child, { type: 'agents' }, agents)
    const isServing = said(child, 'serving', { failed, limitMs: servingMs })
    await Promise.all([isServing, give(child, { type: 'all', told })])
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  } finally {
    if (child.connected) child.disconnect()
    child.unref()
  }
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
  const onDisconnect = (): void => reject(new Error('The gateway that was to be replaced has gone.'))
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

async function said(
  child: ChildProcess,
  word: string,
  { failed, limitMs }: { readonly failed: Promise<Error>; readonly limitMs: number },
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<Error | undefined>()
  const timer = setTimeout(() => resolve(new Error('it did not answer in time')), limitMs)
  const onMessage = (message: unknown): void => {
    if (message === word) resolve(undefined)
  }
  child.on('message', onMessage)
  const why = await Promise.race([promise, failed])
  child.off('message', onMessage)
  clearTimeout(timer)
  if (why) throw why
}
