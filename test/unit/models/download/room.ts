import { readFile, readdir } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Progress } from '../../../../src/contract/service.ts'
import { Bandwidth, DiskSpace } from '../../../../src/agent-core/models/download/limits.ts'
import {
  download,
  type DownloadedFile,
  type DownloadOptions,
  type FileRequest,
} from '../../../../src/agent-core/models/download/download.ts'
import { createTransport } from '../../../../src/agent-core/models/download/transport.ts'
import { ModelError } from '../../../../src/agent-core/models/errors.ts'
import type { Logger } from '../../../../src/agent-core/observability/logger.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

/** A folder to download to, and everything that a download says. */
export interface DownloadRoom extends AsyncDisposable {
  readonly dir: string
  readonly partialPath: string
  /** Every log entry with its fields, as text. */
  readonly logged: string[]
  readonly notices: string[]
  readonly reports: Progress[]
  /** Tries again at once. */
  fetch(request: Partial<FileRequest> & { url: string }, options?: Partial<DownloadOptions>): Promise<DownloadedFile>
  /** Of the partial file. */
  sha256(): Promise<string>
  files(): Promise<string[]>
}

export async function downloadRoom(): Promise<DownloadRoom> {
  const folder = await temporaryFolder()
  const transport = await createTransport({ env: {} })
  const [logged, notices, reports]: [string[], string[], Progress[]] = [[], [], []]
  const keep = (message: string, fields: unknown = {}): void => void logged.push(`${message} ${JSON.stringify(fields)}`)
  const log: Logger = {
    debug: keep,
    info: keep,
    warn: (message, fields = {}) => {
      keep(message, fields)
      if (typeof fields['text'] === 'string') notices.push(fields['text'])
    },
    error: keep,
  }
  const partialPath = join(folder.dir, 'x.gguf.partial')
  return {
    dir: folder.dir,
    partialPath,
    logged,
    notices,
    reports,
    fetch: (request, options) =>
      download(
        { fileName: 'x.gguf', ...request },
        {
          partialPath,
          signal: new AbortController().signal,
          log,
          transport,
          bandwidth: new Bandwidth(),
          space: new DiskSpace(),
          random: () => 0,
          onProgress: (progress) => reports.push(progress),
          ...options,
        },
      ),
    sha256: async () =>
      createHash('sha256')
        .update(await readFile(partialPath))
        .digest('hex'),
    files: async () => (await readdir(folder.dir)).sort(),
    [Symbol.asyncDispose]: async () => {
      await transport[Symbol.asyncDispose]()
      await folder[Symbol.asyncDispose]()
    },
  }
}

export async function failureOf(
  attempt: Promise<unknown>,
): Promise<{ reason: string; message: string; kind: string; retryAfterMs?: number }> {
  const error = await attempt.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ModelError)) throw new Error('expected a ModelError', { cause: error })
  const { reason, message, kind, retryAfterMs } = error
  return { reason, message, kind, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}
