import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ModelError } from '../../../src/agent-core/models/errors.ts'
import { Models, type ModelRequest, type ModelsOptions } from '../../../src/agent-core/models/models.ts'
import type { Logger } from '../../../src/agent-core/observability/logger.ts'
import { startFileServer, type FileServer } from '../../support/file-server.ts'

/** A store in a folder of its own, a file server, and the room under test. */
export interface World extends AsyncDisposable {
  folder: string
  store: string
  server: FileServer
  models: Models
  /** Messages at level info and above. */
  logged: string[]
  /** Another life of the agent on the same store. */
  restarted(options?: Partial<ModelsOptions>): Models
}

export async function startWorld(options: Partial<ModelsOptions> = {}): Promise<World> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'models-')))
  const server = await startFileServer()
  const logged: string[] = []
  const keep = (message: string): void => void logged.push(message)
  const log: Logger = { debug: () => undefined, info: keep, warn: keep, error: keep }
  const directory = join(folder, 'store')
  const lives: Models[] = []
  const restarted = (changes: Partial<ModelsOptions> = {}): Models => {
    const life = new Models({
      directory,
      log,
      attempts: 1,
      allowedModelRoots: [folder],
      allowedDownloadHosts: ['127.0.0.1', 'localhost'],
      ...options,
      ...changes,
    })
    lives.push(life)
    return life
  }
  return {
    folder,
    store: directory,
    server,
    models: restarted(),
    logged,
    restarted,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(lives.map(async (life) => life.stop()))
      await server[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** A file that begins as GGUF files do and tells itself from others by `label`. */
export function gguf(label: string, sizeBytes = 4096): Buffer {
  const content = Buffer.alloc(sizeBytes, label)
  content.write('GGUF')
  return content
}

export function request(source: string, name = 'tiny', namespace = 'default'): ModelRequest {
  return { namespace, name, source }
}

/** A signal for callers that never leave. */
export function staying(): { signal: AbortSignal } {
  return { signal: new AbortController().signal }
}

/** How an attempt failed, without the parts that differ between runs. */
export async function failure(attempt: Promise<unknown>): Promise<Partial<ModelError>> {
  const error = await attempt.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ModelError)) throw new Error('expected a ModelError', { cause: error })
  const { kind, reason, message, retryAfterMs } = error
  return { kind, reason, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}

/** A path in the store, without the digest that tells contents of one Model apart. */
export const place = (path: string): string => path.replace(/\/[0-9a-f]{16}(?:-\d+)?\//, '/')

/** Every file below a folder with its content; records and what is not complete are left out. Of contents of one place the second has its whole path. */
export async function filesBelow(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const files = entries.filter(
    (entry) =>
      !entry.isDirectory() && !entry.name.endsWith('.metalbar.json') && !entry.parentPath.includes('/.metalbar'),
  )
  const read = files.map(async ({ parentPath, name }) => {
    const path = join(parentPath, name)
    const content = await readFile(path, 'latin1')
    return [path.slice(folder.length + 1), content.slice(4, 12)] as const
  })
  const below: Record<string, string> = {}
  for (const [path, content] of (await Promise.all(read)).sort(([a], [b]) => (a < b ? -1 : 1)))
    below[place(path) in below ? path : place(path)] = content
  return below
}
