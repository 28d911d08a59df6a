import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  listenOnLoopback,
  type LoopbackServer,
  type LoopbackServerOptions,
} from '../../agent-core/util/loopback-server.ts'
import { LinkError } from '../../contract/client.ts'
import { tokenParameter } from '../../contract/http.ts'
import type { AgentDoor } from '../agent-door.ts'
import { contentSecurityPolicy, strictHeaders } from './headers.ts'
import { HttpRefusal } from './http-refusal.ts'
import { openPageFiles, type PageFiles } from './page-files.ts'
import { ClientGoneError } from './request-body.ts'
import { checkMethod, checkOrigin } from './request-checks.ts'
import { WindowApi } from './window-api.ts'
import { WindowKeys } from './window-keys.ts'

/** For answers under way when the agent ends; browsers also keep connections that they never used, which nothing else ends. */
const closeMs = 500

export interface WindowServerOptions {
  readonly door: AgentDoor
  /** The built window. */
  readonly folder: string
  /** What fails beside a request; the server goes on. */
  readonly onError: (error: unknown) => void
  readonly limits?: LoopbackServerOptions['limits']
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

interface Listening {
  readonly server: LoopbackServer
  readonly api: WindowApi
}

/** The window for a browser of this machine; it listens only after a person asked for it. */
export class WindowServer implements AsyncDisposable {
  readonly #options: WindowServerOptions
  readonly #now: () => number
  readonly #keys: WindowKeys
  #listening: Promise<Listening> | undefined
  #isClosed = false

  constructor(options: WindowServerOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#keys = new WindowKeys(this.#now)
  }

  /** A URL that works once and expires soon. Without a port: the one in use, or any free one. Throws LinkError. */
  async open(port = 0): Promise<string> {
    if (this.#isClosed) throw new LinkError('gone', 'The agent ends.')
    this.#listening ??= this.#listen(port).catch((error: unknown) => {
      this.#listening = undefined
      throw error
    })
    const { server } = await this.#listening
    if (port !== 0 && port !== server.port) {
      throw new LinkError('refused', `The window is served on port ${server.port} already: leave the port out.`)
    }
    return `http://127.0.0.1:${server.port}/#${tokenParameter}=${this.#keys.mintToken()}`
  }

  async close(): Promise<void> {
    this.#isClosed = true
    // The request for the window reports where it could not listen.
    const listening = await this.#listening?.catch(() => undefined)
    listening?.api.endStreams()
    await listening?.server.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #listen(port: number): Promise<Listening> {
    const { folder, door, onError, limits } = this.#options
    const files = await openPageFiles(folder)
    if (!files) throw new LinkError('refused', `There is no window in ${folder}: run make build.`)
    const api = new WindowApi({ door, keys: this.#keys, onError, now: this.#now })
    const result = await listenOnLoopback({
      port,
      handle: (request, response) => answer({ files, api }, request, response),
      onError,
      // A command may take its time, and a follower stays.
      limits: { closeMs, ...limits, answerMs: undefined },
    })
    if (!result.ok) throw new LinkError('refused', result.message)
    return { server: result.server, api }
  }
}

interface Rooms {
  readonly files: PageFiles
  readonly api: WindowApi
}

async function answer({ files, api }: Rooms, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    checkOrigin(request.headers)
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    if (path === '/api' || path.startsWith('/api/')) await api.answer(path, request, response)
    else await sendFile(files, path, request, response)
  } catch (error) {
    if (error instanceof ClientGoneError) response.destroy()
    else if (error instanceof HttpRefusal) refuse(error, response)
    else throw error
  }
}

async function sendFile(
  files: PageFiles,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  checkMethod(request.method, ['GET', 'HEAD'])
  const file = await files(path)
  if (!file) throw new HttpRefusal({ status: 404, code: 'misunderstood', message: 'There is no such file.' })
  response.writeHead(200, { ...strictHeaders, ...file.headers, 'content-length': file.body.length })
  response.end(request.method === 'HEAD' ? undefined : file.body)
}

function refuse({ status, code, message, headers }: HttpRefusal, response: ServerResponse): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const text = `${JSON.stringify({ code, message })}\n`
  response.writeHead(status, {
    ...strictHeaders,
    ...headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'content-security-policy': contentSecurityPolicy(),
    'cache-control': 'no-store',
    // A refused client keeps no connection that others may need: the rest of its request is not waited for.
    connection: 'close',
  })
  response.end(text)
}
