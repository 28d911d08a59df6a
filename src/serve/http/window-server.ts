import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import path from 'node:path'
import { embeddedBytes, embeddedFilesIn, isEmbedded } from '../../agent-core/util/embedded.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import {
  listenOnLoopback,
  type LoopbackServer,
  type LoopbackServerOptions,
} from '../../agent-core/util/loopback-server.ts'
import { LinkError } from '../../contract/client.ts'
import { tokenParameter } from '../../contract/http.ts'
import type { AgentDoor } from '../agent-door.ts'
import {
  checkMethod,
  checkOrigin,
  ClientGoneError,
  contentSecurityPolicy,
  HttpRefusal,
  strictHeaders,
} from './requests.ts'
import { WindowApi, WindowKeys } from './window-api.ts'

interface PageFile {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** The built window: answers to the path of a URL; undefined where there is no such file. */
type PageFiles = (urlPath: string) => Promise<PageFile | undefined>

/** Media types of the built window's files, by extension. */
export const mediaTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
}

/** In the page's `<meta property="csp-nonce">`, from where the component library takes it for the styles it adds. */
export const noncePlaceholder = '__CSP_NONCE__'

/**
 * The files in the folder as of now and nothing else, whatever a path may say; it may be `embedded:` in a self-contained command.
 * Undefined where the window was not built.
 */
async function openPageFiles(folder: string): Promise<PageFiles | undefined> {
  const inside = isEmbedded(folder) ? embeddedFilesIn(folder) : await filesIn(folder)
  const files = new Map(inside.filter(isPageFile).map((file) => [`/${file}`, `${folder}/${file}`]))
  const index = files.get('/index.html')
  if (index === undefined) return undefined
  files.set('/', index)
  return async (urlPath) => {
    const file = files.get(urlPath)
    return file === undefined ? undefined : await read(file)
  }
}

async function filesIn(folder: string): Promise<string[]> {
  try {
    return await below(folder, '')
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')) return []
    throw error
  }
}

/** One folder after the other: Electron lists no archive recursively in a way that its documentation promises. */
async function below(folder: string, prefix: string): Promise<string[]> {
  const files: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const name = `${prefix}${entry.name}`
    if (entry.isDirectory()) files.push(...(await below(path.join(folder, entry.name), `${name}/`)))
    else if (entry.isFile()) files.push(name)
  }
  return files
}

const isPageFile = (file: string): boolean => Object.hasOwn(mediaTypes, path.extname(file))

async function read(file: string): Promise<PageFile> {
  const body = isEmbedded(file) ? embeddedBytes(file) : await readFile(file)
  const type = mediaTypes[path.extname(file)] ?? 'application/octet-stream'
  if (path.extname(file) !== '.html') {
    return {
      headers: {
        'content-type': type,
        'content-security-policy': contentSecurityPolicy(),
        'cache-control': hasHashInName(file) ? 'public, max-age=31536000, immutable' : 'no-cache',
      },
      body,
    }
  }
  const nonce = randomBytes(16).toString('base64')
  return {
    headers: {
      'content-type': type,
      'content-security-policy': contentSecurityPolicy(nonce),
      'cache-control': 'no-store',
    },
    body: Buffer.from(body.toString('utf8').replaceAll(noncePlaceholder, nonce)),
  }
}

/** As the build names what a page loads, so that another content has another name. */
const hasHashInName = (file: string) => /-[\w-]{8}\.\w+$/.test(path.basename(file))

/** For answers under way when the agent ends; browsers also keep connections that they never used, which nothing else ends. */
const closeMs = 500

export interface WindowServerOptions {
  readonly door: AgentDoor
  /** The built window. */
  readonly folder: string
  /** Called for failures outside a request; the server keeps running. */
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
      throw new LinkError('refused', `The window is already served on port ${server.port}: leave the port out.`)
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
