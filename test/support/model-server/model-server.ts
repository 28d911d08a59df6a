import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Behaviour, SeenRequest, ServerNews, ServerOrder } from './behaviour.ts'
import { Content } from './content.ts'

export interface ModelServer extends AsyncDisposable {
  /** `http(s)://127.0.0.1:<port>` */
  readonly origin: string
  readonly pid: number
  serve(path: string, behaviour: Behaviour): Promise<ServedModel>
  /** Every request so far, in order. */
  requests(): Promise<readonly SeenRequest[]>
}

export interface ServedModel {
  readonly url: string
  readonly content: Content
}

/** A server process for model files that does what servers do wrong. */
export async function startModelServer(tls?: { keyFile: string; certificateFile: string }): Promise<ModelServer> {
  const main = fileURLToPath(new URL('./server-main.ts', import.meta.url))
  const child = fork(main, tls === undefined ? [] : [tls.keyFile, tls.certificateFile], { execArgv: [] })
  const listening = await news(child, 'listening')
  const origin = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${listening.port}`
  let asking: Promise<unknown> = Promise.resolve()
  /** One after the other, so that each answer belongs to its order. */
  const ask = <Kind extends ServerNews['kind']>(
    order: ServerOrder,
    kind: Kind,
  ): Promise<Extract<ServerNews, { kind: Kind }>> => {
    const answer = asking.then(() => {
      const answered = news(child, kind)
      child.send(order)
      return answered
    })
    asking = answer
    return answer
  }
  return {
    origin,
    pid: child.pid ?? 0,
    serve: async (path, behaviour) => {
      await ask({ kind: 'serve', path, behaviour }, 'served')
      return { url: origin + path, content: new Content(behaviour.seed, behaviour.sizeBytes) }
    },
    requests: async () => (await ask({ kind: 'requests' }, 'requests')).requests,
    [Symbol.asyncDispose]: () => ended(child),
  }
}

/** An HTTP proxy in a process of its own. `login`: `user:password` that it asks for. `refuses`: answers so to everything. */
export async function startProxy(
  options: { login?: string; refuses?: number } = {},
): Promise<AsyncDisposable & { readonly port: number; seen(): Promise<readonly string[]> }> {
  const child = fork(fileURLToPath(new URL('./proxy-main.ts', import.meta.url)), [JSON.stringify(options)], {
    execArgv: [],
  })
  const { port } = await news(child, 'listening')
  return {
    port,
    seen: async () => {
      const answered = once(child, 'message')
      child.send('seen')
      const [answer] = (await answered) as [readonly string[]]
      return answer
    },
    [Symbol.asyncDispose]: () => ended(child),
  }
}

async function news<Kind extends ServerNews['kind']>(
  child: ChildProcess,
  kind: Kind,
): Promise<Extract<ServerNews, { kind: Kind }>> {
  const [message] = (await once(child, 'message')) as [ServerNews]
  if (message.kind !== kind) throw new Error(`The server process said ${message.kind} in place of ${kind}.`)
  return message as Extract<ServerNews, { kind: Kind }>
}

async function ended(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await exited
}
